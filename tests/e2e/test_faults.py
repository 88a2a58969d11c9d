"""Faults that real pods meet: each ends in its outcome class, and no attempt is lost or made twice.

All runs start together, because most of their time they wait: for a kubelet, or for a deadline.
"""

import os
import signal
from dataclasses import dataclass
from pathlib import Path

import pytest

from assay.api.outcome import OutcomeClass
from assay.core.record import TryRecord
from demo.kube import PODS, Object
from tests.e2e.bench import SECONDS, Bench, RunHandle
from tests.e2e.tasks import CHECK_ANSWER, LEAVE_ANSWER, PASS, Task
from tests.e2e.trouble import wait_container

BUSY_SECONDS = 20
"""How long an agent works that is disturbed meanwhile; the second try of the same attempt takes as long."""

WORK = f"sleep {BUSY_SECONDS}\n{LEAVE_ANSWER}"
EAT_MEMORY = "exec python3 -c 'x = bytearray(1 << 30)\nfor i in range(0, len(x), 4096): x[i] = 1'"
EAT_DISK = "dd if=/dev/zero of=/root/filler bs=1M count=3000 || true\nsync\nsleep 100"
IGNORE_TERM = f"trap '' TERM INT HUP\n{LEAVE_ANSWER}\nwhile true; do sleep 1; done"
SLOW_CHECK = f"sleep {BUSY_SECONDS}\n{CHECK_ANSWER}"


@dataclass(frozen=True)
class Faults:
    """The runs, by what befalls them; each has one attempt."""

    runs: dict[str, RunHandle]

    def __getitem__(self, name: str) -> RunHandle:
        return self.runs[name]


@pytest.fixture(scope="module")
def faults(bench: Bench) -> Faults:
    oracle = bench.variant("oracle")
    tasks = {
        "agent-oom": Task("agent-oom", solve=EAT_MEMORY),
        "disk-full": Task("disk-full", solve=EAT_DISK),
        "ignores-term": Task("ignores-term", solve=IGNORE_TERM, agent_seconds=10),
        "evicted": Task("evicted", solve=WORK),
        "deleted": Task("deleted", solve=WORK),
        "runner-killed": Task("runner-killed", solve=WORK),
        "judge-killed": Task("judge-killed", test=SLOW_CHECK),
        "in-one": Task("in-one", solve=WORK, test=PASS, separate=False),
    }
    return Faults({name: bench.run(bench.ledger(task), oracle) for name, task in tasks.items()})


def working(bench: Bench, run: RunHandle, container: str = "environment") -> Object:
    """The run's first pod, once that container runs."""
    return wait_container(bench, run, container)


def tries(run: RunHandle) -> list[TryRecord]:
    """The recorded tries of a complete run, which has one attempt."""
    run.completed(seconds=2 * SECONDS)
    found = sorted(run.recorded(), key=lambda one: one.try_number)
    assert [one.try_number for one in found] == list(range(1, len(found) + 1)), "no try is lost or twice"
    assert run.jobs() == []
    return found


def outcomes(run: RunHandle) -> list[OutcomeClass]:
    return [one.outcome for one in tries(run)]


def kill_runner(pod: Object) -> None:
    """SIGKILL to the runner's process of a pod, from the node."""
    uid = str(pod["metadata"]["uid"])
    found = [process for process in _processes() if process.belongs_to(uid) and process.is_runner()]
    assert found, f"no process of the runner in pod {pod['metadata']['name']}"
    for process in found:
        os.kill(process.pid, signal.SIGKILL)


@dataclass(frozen=True)
class _Process:
    pid: int

    def belongs_to(self, pod_uid: str) -> bool:
        text = self._read("cgroup").decode()
        return pod_uid in text or pod_uid.replace("-", "_") in text

    def is_runner(self) -> bool:
        return b"assay.runner" in self._read("cmdline")

    def _read(self, name: str) -> bytes:
        try:
            return Path(f"/proc/{self.pid}/{name}").read_bytes()
        except OSError:
            return b""


def _processes() -> list[_Process]:
    return [_Process(int(path.name)) for path in Path("/proc").iterdir() if path.name.isdecimal()]


def test_a_pod_evicted_through_the_api_is_run_again(bench: Bench, faults: Faults) -> None:
    run = faults["evicted"]
    pod = working(bench, run)["metadata"]["name"]
    path = f"{PODS.path(run.namespace, pod)}/eviction"
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod, "namespace": run.namespace},
    }
    bench.kube.request("POST", path, body=body)
    disturbed, passed = tries(run)
    assert (disturbed.outcome, passed.outcome) == (OutcomeClass.DISRUPTED, OutcomeClass.GRADED)
    assert "EvictionByEvictionAPI" in disturbed.reason
    (row,) = run.now().status.vector
    assert (row.score_strict, row.tries, row.infra_errors) == ("1", 2, 1)


def test_a_pod_deleted_by_hand_is_run_again(bench: Bench, faults: Faults) -> None:
    run = faults["deleted"]
    bench.kube.delete(PODS, run.namespace, working(bench, run)["metadata"]["name"])
    assert outcomes(run) == [OutcomeClass.DISRUPTED, OutcomeClass.GRADED]


def test_a_runner_killed_under_the_agent_never_runs_it_twice_in_a_pod(bench: Bench, faults: Faults) -> None:
    run = faults["runner-killed"]
    kill_runner(working(bench, run))
    lost, passed = tries(run)
    assert (lost.outcome, passed.outcome) == (OutcomeClass.RUNNER_RESTARTED, OutcomeClass.GRADED)
    # What was there is evidence all the same, and the two tries are two pods.
    assert lost.manifest_digest
    assert lost.pod_uid != passed.pod_uid


def test_a_runner_killed_under_the_verifier_loses_nothing(bench: Bench, faults: Faults) -> None:
    run = faults["judge-killed"]
    kill_runner(working(bench, run, "verifier"))
    found = tries(run)
    assert found[-1].outcome is OutcomeClass.GRADED
    assert found[-1].reward == 1
    assert found[0].outcome is not OutcomeClass.GRADED


def test_a_runner_killed_in_a_shared_pod_is_run_again(bench: Bench, faults: Faults) -> None:
    run = faults["in-one"]
    kill_runner(working(bench, run))
    assert outcomes(run) == [OutcomeClass.RUNNER_RESTARTED, OutcomeClass.GRADED]


def test_an_agent_that_eats_its_memory_gets_no_second_sample(faults: Faults) -> None:
    (only,) = tries(faults["agent-oom"])
    assert only.outcome is OutcomeClass.AGENT_OOM
    (row,) = faults["agent-oom"].now().status.vector
    assert (row.score_strict, row.valid, row.tries) == ("0", 1, 1)


def test_an_agent_that_fills_its_disk_gets_no_second_sample(faults: Faults) -> None:
    (only,) = tries(faults["disk-full"])
    assert only.outcome is OutcomeClass.AGENT_DISK_EXCEEDED
    assert "ephemeral" in only.reason.lower()
    (row,) = faults["disk-full"].now().status.vector
    assert (row.score_strict, row.valid, row.tries) == ("0", 1, 1)


def test_an_agent_that_ignores_sigterm_ends_with_its_time(faults: Faults) -> None:
    (only,) = tries(faults["ignores-term"])
    assert only.outcome is OutcomeClass.GRADED
    assert only.agent_timed_out
    assert only.reward == 1, "what it had done by then is judged"
