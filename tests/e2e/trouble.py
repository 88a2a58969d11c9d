"""Trouble that a cluster makes: pods that die, storage that is away or refuses."""

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from urllib.parse import urlsplit

from demo.commands import apply
from demo.install import RUN_NAMESPACE, SYSTEM_NAMESPACE, secret_manifest
from demo.kube import PODS, SERVICES, Object
from demo.target import Storage
from tests.e2e.bench import SECONDS, Bench, RunHandle

OPERATOR = "app.kubernetes.io/component=operator"
GATEWAY = "app.kubernetes.io/component=gateway"

_TABLE = "assay_test"


def is_ready(pod: Object) -> bool:
    conditions = pod.get("status", {}).get("conditions", [])
    return any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)


def ready_pod(bench: Bench, namespace: str, selector: str) -> Object:
    """A pod that is ready; beside it there may be some that are on their way in or out."""
    return bench.kube.wait_any(
        PODS, namespace, selector, is_ready, what=f"a pod of {selector} is ready", seconds=SECONDS
    )


def kill(bench: Bench, namespace: str, selector: str) -> Sequence[str]:
    """Kills pods at once, as a lost node does; returns their names when others are ready in their place."""
    old = {pod["metadata"]["uid"] for pod in bench.kube.items(PODS, namespace, selector)}
    names = [pod["metadata"]["name"] for pod in bench.kube.items(PODS, namespace, selector)]
    for name in names:
        bench.kube.delete(PODS, namespace, name, grace_seconds=0)
    bench.kube.wait_any(
        PODS,
        namespace,
        selector,
        lambda pod: pod["metadata"]["uid"] not in old and is_ready(pod),
        what=f"a new pod of {selector} is ready",
        seconds=SECONDS,
    )
    return names


def container_state(pod: Object, name: str) -> Object:
    """The state of a container as the kubelet reports it; empty while it does not."""
    status = pod.get("status", {})
    every = (*status.get("initContainerStatuses", []), *status.get("containerStatuses", []))
    return next((dict(item["state"]) for item in every if item["name"] == name), {})


def wait_container(bench: Bench, run: RunHandle, name: str) -> Object:
    """The first pod of the run whose container of that name runs."""
    return bench.kube.wait_any(
        PODS,
        run.namespace,
        run.selector,
        lambda pod: "running" in container_state(pod, name),
        what=f"container {name} of {run.name} runs",
        seconds=SECONDS,
    )


@contextmanager
def operator_storage(bench: Bench, storage: Storage) -> Iterator[None]:
    """The operator, started anew with other keys, and at the end with the right ones again."""
    try:
        _restart_with(bench, storage)
        yield
    finally:
        _restart_with(bench, bench.target.storage)


def _restart_with(bench: Bench, storage: Storage) -> None:
    apply([secret_manifest(SYSTEM_NAMESPACE, storage)])
    kill(bench, SYSTEM_NAMESPACE, OPERATOR)


@contextmanager
def storage_unreachable(bench: Bench) -> Iterator[None]:
    """Resets every connection of pods to the store, old ones too. Works on the local cluster's node alone."""
    port = urlsplit(bench.target.storage.endpoint_here).port
    rules = f"""
        table inet {_TABLE} {{
          chain input {{
            type filter hook input priority -10
            iifname != "lo" tcp dport {port} reject with tcp reset
          }}
        }}
    """
    subprocess.run(["nft", "-f", "-"], input=rules, text=True, check=True)
    try:
        yield
    finally:
        subprocess.run(["nft", "delete", "table", "inet", _TABLE], check=True)


def forbidden_addresses(bench: Bench) -> list[tuple[str, int]]:
    """What no attempt pod may reach: API server, S3, kubelet, metadata, DNS, the operator, as addresses."""
    api = bench.kube.get(SERVICES, "default", "kubernetes")["spec"]["clusterIP"]
    node = bench.kube.request("GET", "/api/v1/nodes")["items"][0]["status"]["addresses"][0]["address"]
    storage = urlsplit(bench.target.storage.endpoint_here)
    operator = ready_pod(bench, SYSTEM_NAMESPACE, OPERATOR)["status"]["podIP"]
    found = [(api, 443), (node, 6443), (node, 10250), ("169.254.169.254", 80), (operator, 9090)]
    found += [(str(storage.hostname), storage.port or 80)]
    for namespace, name in (("assay-s3", "s3"), ("kube-system", "kube-dns")):
        service = bench.kube.find(SERVICES, namespace, name)
        if service:
            found.append((service["spec"]["clusterIP"], service["spec"]["ports"][0]["port"]))
    return found


def gateway_metric(bench: Bench, name: str, **labels: str) -> float:
    """A figure, added up over the gateway's replicas of the runs' namespace."""
    total = 0.0
    for pod in bench.kube.items(PODS, RUN_NAMESPACE, GATEWAY):
        path = f"/api/v1/namespaces/{RUN_NAMESPACE}/pods/{pod['metadata']['name']}:8080/proxy/metrics"
        if is_ready(pod):
            total += _sum(str(bench.kube.request("GET", path)), name, labels)
    return total


def _sum(exposition: str, name: str, labels: dict[str, str]) -> float:
    from prometheus_client.parser import text_string_to_metric_families

    samples = (sample for family in text_string_to_metric_families(exposition) for sample in family.samples)
    return sum(
        sample.value for sample in samples if sample.name == name and labels.items() <= sample.labels.items()
    )
