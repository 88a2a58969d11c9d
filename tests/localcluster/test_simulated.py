"""The cluster whose nodes exist in name only, and the restart of a component."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import pytest

from localcluster.cluster import INSIDE
from localcluster.layout import Profile
from localcluster.state import State

from .conftest import Machine, eventually

pytestmark = pytest.mark.e2e


class Simulated(Machine):
    """Its commands go to the profile `simulated`."""

    def kubectl(self, *arguments: str) -> str:
        return self.succeed("shell", "--profile", "simulated", "--", "kubectl", *arguments)

    def pod(self, job: str) -> dict[str, object]:
        found = json.loads(self.kubectl("get", "pods", "-l", f"job-name={job}", "-o", "json"))["items"]
        return dict(found[0]["status"]) if found else {}

    def job(self, name: str, end: str) -> None:
        pod = {
            "restartPolicy": "Never",
            "nodeSelector": {"simulated.assay.dev/end": end},
            "containers": [{"name": "environment", "image": "none"}],
        }
        spec = {"backoffLimit": 0, "template": {"spec": pod}}
        manifest = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}
        path = self.folder / f"{name}.json"
        path.write_text(json.dumps(manifest))
        self.kubectl("create", "-f", str(path))


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulated]:
    """One cluster for the tests of this module."""
    if INSIDE in os.environ:
        pytest.skip("these tests start clusters of their own and cannot run inside one")
    machine = Simulated(tmp_path_factory.mktemp("simulated"))
    machine.succeed("up", "--profile", "simulated")
    yield machine
    machine.succeed("down")


def test_a_pod_on_the_clock_ends_by_itself(simulated: Simulated) -> None:
    simulated.job("clock", "clock")
    simulated.kubectl("wait", "--for=condition=Complete", "job/clock", "--timeout=60s")
    assert simulated.pod("clock")["phase"] == "Succeeded"


def test_a_pod_ends_as_its_annotations_tell(simulated: Simulated) -> None:
    simulated.job("told", "told")
    eventually(lambda: simulated.pod("told").get("phase") == "Running")
    told = ["end=137", "reason=OOMKilled", "disruption=PreemptionByScheduler"]
    simulated.kubectl(
        "annotate", "pods", "-l", "job-name=told", *(f"simulated.assay.dev/{one}" for one in told)
    )
    simulated.kubectl("wait", "--for=condition=Failed", "job/told", "--timeout=60s")
    status = json.dumps(simulated.pod("told"))
    assert '"exitCode": 137' in status
    assert '"OOMKilled"' in status
    assert '"DisruptionTarget"' in status


def test_a_component_restarts_and_the_cluster_goes_on(simulated: Simulated) -> None:
    def pid() -> int | None:
        state = State.read(simulated.layout(Profile.SIMULATED))
        assert state
        return state.components["kube-apiserver"].pid

    before = pid()
    simulated.succeed("restart", "kube-apiserver", "--profile", "simulated")
    assert pid() != before
    simulated.succeed("status", "--profile", "simulated")
    simulated.job("after", "clock")
    simulated.kubectl("wait", "--for=condition=Complete", "job/after", "--timeout=60s")
    said = simulated.fail("restart", "kubelet", "--profile", "simulated")
    assert "kubelet is no process of this cluster: name one of etcd, kube-apiserver" in said
