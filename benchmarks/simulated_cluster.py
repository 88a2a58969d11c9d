"""What the benchmarks of the operator share: a cluster of simulated nodes, and who used how much of it."""

import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from assay.adapters.kube import KubeClient
from localcluster.cluster import INSIDE, find
from localcluster.layout import Layout, Profile
from localcluster.state import State
from tests.operator_kit.process import ROOT

TICK = os.sysconf("SC_CLK_TCK")
_SAMPLE = re.compile(r"^(\w+)(?:\{(.*?)\})? (\S+)$", re.M)
_LABEL = re.compile(r'(\w+)="(.*?)"')


def enter(module: str) -> None:
    """Return inside a cluster of simulated nodes. Outside, start one, run the module in it, and exit."""
    cluster = find(Layout(Path(os.environ[INSIDE]))) if INSIDE in os.environ else None
    if cluster is not None and cluster.facts.profile is Profile.SIMULATED:
        subprocess.run(
            ["kubectl", "apply", "--server-side", "-f", "crds"],
            cwd=ROOT,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        return
    if cluster is not None:
        sys.exit(f"benchmarks.{module} starts a cluster of its own: run it outside of this one")
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"ASSAY_CLUSTER_DIR": folder}
        local = [sys.executable, "-m", "localcluster"]
        subprocess.run([*local, "up", "--profile", "simulated"], env=environment, check=True)
        try:
            inside = [sys.executable, "-m", f"benchmarks.{module}", *sys.argv[1:]]
            shell = [*local, "shell", "--profile", "simulated", "--", *inside]
            status = subprocess.run(shell, env=environment, check=False).returncode
        finally:
            subprocess.run([*local, "down"], env=environment, check=False)
    sys.exit(status)


def cpu_seconds(processes: Mapping[str, int]) -> dict[str, float]:
    """CPU seconds so far of every part of the cluster and of `processes`, by name."""
    state = State.read(Layout(Path(os.environ[INSIDE])))
    assert state is not None
    parts = {name: one.pid for name, one in state.components.items() if one.pid}
    return {name: _cpu(pid) for name, pid in {**parts, **processes}.items()}


def resident_mb(pid: int) -> float:
    """Resident memory of a process."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


@dataclass(frozen=True)
class Requests:
    """What the API server has answered so far: all requests, and those of each client of `client_of`."""

    total: float
    by_client: Mapping[str, float]


async def requests(client: KubeClient) -> Requests:
    """Without watches, leases and probes."""
    text = (await client.request("GET", "/metrics")).decode()
    total, by_client = 0.0, dict[str, float]()
    for name, labels_text, value in _SAMPLE.findall(text):
        labels = dict(_LABEL.findall(labels_text))
        if name == "apiserver_request_total":
            if labels["verb"] not in ("WATCH", "CONNECT") and labels["resource"] not in ("leases", ""):
                total += float(value)
        elif name == "apiserver_flowcontrol_dispatched_requests_total":
            flow = labels["flow_schema"]
            by_client[flow] = by_client.get(flow, 0.0) + float(value)
    return Requests(total, by_client)


async def client_of(client: KubeClient, name: str, folder: Path) -> Path:
    """A kubeconfig of a client of its own, whose requests are counted under `name`. May be repeated."""
    await asyncio.to_thread(_apply, _client_objects(name))
    path = f"/api/v1/namespaces/default/serviceaccounts/{name}/token"
    token = (await client.create(path, {"spec": {"expirationSeconds": 86_400}}))["status"]["token"]
    return await asyncio.to_thread(_write_kubeconfig, folder / f"{name}.kubeconfig", token)


def _apply(objects: list[dict[str, object]]) -> None:
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    subprocess.run(
        ["kubectl", "apply", "-f", "-"], input=listed.encode(), check=True, stdout=subprocess.DEVNULL
    )


def _client_objects(name: str) -> list[dict[str, object]]:
    account = {"name": name, "namespace": "default"}
    everything = {
        "apiGroups": ["*"],
        "resources": ["*"],
        "verbs": ["*"],
        "namespaces": ["*"],
        "clusterScope": True,
    }
    rule = {
        "subjects": [{"kind": "ServiceAccount", "serviceAccount": account}],
        "resourceRules": [everything],
    }
    group = "rbac.authorization.k8s.io"
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account},
        {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", **account}],
        },
        {
            "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
            "kind": "FlowSchema",
            "metadata": {"name": name},
            "spec": {
                "matchingPrecedence": 500,
                "priorityLevelConfiguration": {"name": "workload-high"},
                "rules": [rule],
            },
        },
    ]


def _write_kubeconfig(path: Path, token: str) -> Path:
    document = json.loads(Path(os.environ["KUBECONFIG"]).read_text())
    document["users"] = [{"name": document["users"][0]["name"], "user": {"token": token}}]
    path.write_text(json.dumps(document))
    return path
