"""What an agent can find out and reach: looked for from inside its own container."""

import base64
import json
from dataclasses import dataclass
from typing import Any

import pytest

from assay.api import labels
from demo.commands import apply
from demo.install import RUN_NAMESPACE
from demo.kube import Object
from tests.e2e.bench import Bench, RunHandle, unique
from tests.e2e.evidence import TryEvidence
from tests.e2e.tasks import Task
from tests.e2e.trouble import forbidden_addresses, wait_container

PROVIDER_KEY = "sk-real-key-of-the-provider-7f3a9c"

# The secrets stand in the script in a form that is not theirs, or the search would find itself.
_LOOK_AROUND = r"""
mkdir -p /logs/artifacts; echo done > /logs/artifacts/answer.txt
python3 - <<'PYTHON'
import base64, json, os, pathlib, socket

secrets = [base64.b64decode(word)[::-1] for word in SECRETS]

def holds_secret(data):
    return any(secret in data for secret in secrets)

hits, unreadable = [], 0
roots = [path for path in pathlib.Path("/").iterdir() if path.name not in ("proc", "sys", "dev")]
for root in roots:
    for folder, _, names in os.walk(root):
        for name in names:
            path = pathlib.Path(folder, name)
            try:
                if path.is_file() and not path.is_symlink() and holds_secret(path.read_bytes()):
                    hits.append(str(path))
            except OSError:
                unreadable += 1
for process in pathlib.Path("/proc").glob("[0-9]*"):
    for name in ("environ", "cmdline"):
        try:
            if holds_secret((process / name).read_bytes()):
                hits.append(str(process / name))
        except OSError:
            pass

def reaches(host, port):
    try:
        with socket.create_connection((host, port), timeout=3):
            return True
    except OSError:
        return False

def resolves(name):
    try:
        return bool(socket.getaddrinfo(name, 80))
    except OSError:
        return False

print("FINDINGS " + json.dumps({
    "hits": hits,
    "environment": sorted(os.environ),
    "serviceAccount": os.path.exists("/var/run/secrets/kubernetes.io"),
    "gatewayToken": os.path.exists("/var/run/assay"),
    "reached": [address for address in ADDRESSES if reaches(*address)],
    "gateway": reaches("assay-gateway.internal", 8080),
    "resolved": [name for name in NAMES if resolves(name)],
    "processes": sorted({(p / "comm").read_text().strip() for p in pathlib.Path("/proc").glob("[0-9]*")}),
    "sockets": [str(path) for path in pathlib.Path("/assay").rglob("*")],
    "writable": os.access("/assay/bin/sandboxd", os.W_OK),
}))
PYTHON
"""


@dataclass(frozen=True)
class Lookout:
    """A run whose agent (the oracle's script) looks for credentials and ways out, and its pod."""

    run: RunHandle
    pod: Object


@pytest.fixture(scope="module")
def looked_around(bench: Bench) -> Lookout:
    provider = unique("provider")
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": provider, "namespace": RUN_NAMESPACE, "labels": {labels.PROVIDER_KEY: "true"}},
        "stringData": {"api-key": PROVIDER_KEY},
    }
    apply([secret])
    storage = bench.target.storage
    hidden = [_hidden(text) for text in (PROVIDER_KEY, storage.secret_key, storage.access_key)]
    ledger = bench.ledger(Task("look-around", solve=_script(bench, hidden)))
    run = bench.run(ledger, bench.variant("oracle"))
    pod = wait_container(bench, run, "environment")
    run.completed()
    return Lookout(run, pod)


def _script(bench: Bench, hidden: list[str]) -> str:
    return (
        _LOOK_AROUND.replace("SECRETS", json.dumps(hidden))
        .replace("ADDRESSES", json.dumps(forbidden_addresses(bench)))
        .replace(
            "NAMES", json.dumps(["kubernetes.default.svc.cluster.local", "s3.assay-s3.svc.cluster.local"])
        )
    )


def _hidden(secret: str) -> str:
    return base64.b64encode(secret[::-1].encode()).decode()


@pytest.fixture(scope="module")
def evidence(looked_around: Lookout) -> TryEvidence:
    return looked_around.run.evidence()[-1]


@pytest.fixture(scope="module")
def findings(evidence: TryEvidence) -> dict[str, Any]:
    return _findings(evidence)


def _findings(evidence: TryEvidence) -> dict[str, Any]:
    log = evidence.text("trial/agent/oracle.txt")
    line = next(line for line in log.splitlines() if line.startswith("FINDINGS "))
    found: dict[str, Any] = json.loads(line.removeprefix("FINDINGS "))
    return found


def test_no_credential_is_in_any_file_environment_or_command_line(findings: dict[str, Any]) -> None:
    assert findings["hits"] == []
    assert findings["serviceAccount"] is False
    assert findings["gatewayToken"] is False
    suspicious = [
        name for name in findings["environment"] if "TOKEN" in name or "SECRET" in name or "AWS" in name
    ]
    assert suspicious == []


def test_the_agent_reaches_the_gateway_and_nothing_else(findings: dict[str, Any]) -> None:
    assert findings["reached"] == []
    assert findings["gateway"] is True
    assert findings["resolved"] == []


def test_the_agent_sees_its_own_processes_alone(findings: dict[str, Any]) -> None:
    """Its script, and sandboxd under the name of its binary or of the link that it starts itself by."""
    assert set(findings["processes"]) <= {"sandboxd", "exe", "bash", "solve.sh", "python3"}


def test_the_agent_cannot_change_the_binary_that_serves_it(findings: dict[str, Any]) -> None:
    assert findings["writable"] is False


def test_the_evidence_of_the_try_holds_no_credential(bench: Bench, evidence: TryEvidence) -> None:
    everything = evidence.everything()
    for secret in (PROVIDER_KEY, bench.target.storage.secret_key):
        assert secret.encode() not in everything
    evidence.assert_complete()


def test_the_probes_before_the_agent_are_in_the_evidence(evidence: TryEvidence) -> None:
    probes = evidence.manifest.result.isolation
    assert probes
    assert not any(probe.reachable for probe in probes)
    assert all(probe.failed_for_seconds >= 1 for probe in probes)


def test_the_pod_has_no_token_but_the_runners(looked_around: Lookout) -> None:
    spec = looked_around.pod["spec"]
    assert spec["automountServiceAccountToken"] is False
    holders = {
        container["name"]
        for container in (*spec["initContainers"], *spec["containers"])
        for mount in container.get("volumeMounts", [])
        if mount["name"] == "gateway-token"
    }
    assert holders == {"runner"}
    for container in (*spec["initContainers"], *spec["containers"]):
        names = {variable["name"] for variable in container.get("env", [])}
        assert not {name for name in names if name.startswith("AWS_") or "KEY" in name}


def test_the_internet_is_not_the_cluster(bench: Bench) -> None:
    """A task with internet has DNS, and still reaches no address of the cluster but the gateway."""
    task = Task("with-internet", solve=_script(bench, []), network="public")
    run = bench.run(bench.ledger(task), bench.variant("oracle"))
    run.completed()
    (left,) = run.evidence()
    assert not any(probe.reachable for probe in left.manifest.result.isolation)
    found = _findings(left)
    assert found["gateway"] is True
    assert found["resolved"]
    assert {port for _, port in found["reached"]} <= {53}
