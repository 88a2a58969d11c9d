"""Faults that real pods meet: each ends in its outcome class, and no attempt is lost or made twice.

All runs start together and each is disturbed as soon as it is where it is to be disturbed, because most of
their time they wait: for a kubelet, or for a deadline.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from assay.api.outcome import OutcomeClass
from assay.core.record import TryRecord
from demo.kube import PODS, Object
from tests.e2e.bench import SECONDS, Bench, RunHandle
from tests.e2e.node_processes import Process, kill_runner, starve_runner, wait_process
from tests.e2e.tasks import CHECK_ANSWER, LEAVE_ANSWER, PASS, Task

MARK = "611"
"""Seconds that no other process sleeps: where one does, it is what a test waits for."""

IN_THE_FIRST_POD = f"case $(cat /proc/sys/kernel/hostname) in *-t1-*) sleep {MARK};; esac"
"""Never done where the pod is to be disturbed, so no machine is too fast or too slow for it; then at once."""

WORK = f"{IN_THE_FIRST_POD}\n{LEAVE_ANSWER}"
EAT_MEMORY = "exec python3 -c 'x = bytearray(1 << 30)\nfor i in range(0, len(x), 4096): x[i] = 1'"
EAT_DISK = "dd if=/dev/zero of=/root/filler bs=1M count=3000 || true\nsync\nsleep 100"
IGNORE_TERM = f"trap '' TERM INT HUP\n{LEAVE_ANSWER}\nwhile true; do sleep 1; done"
SLOW_CHECK = f"{IN_THE_FIRST_POD}\n{CHECK_ANSWER}"


TASKS = (
    Task("agent-oom", solve=EAT_MEMORY),
    Task("disk-full", solve=EAT_DISK),
    Task("ignores-term", solve=IGNORE_TERM, agent_seconds=10),
    Task("evicted", solve=WORK),
    Task("deleted", solve=WORK),
    Task("runner-killed", solve=WORK),
    Task("runner-oom", solve=WORK),
    Task("judge-killed", test=SLOW_CHECK),
    Task("in-one", solve=WORK, test=PASS, separate=False),
)

Runs = dict[str, RunHandle]
"""The runs by the names of their tasks; each has one attempt."""


@pytest.fixture(scope="module")
def faults(bench: Bench) -> Runs:
    oracle = bench.variant("oracle")
    # Building a ledger takes seconds: no run may be over before the last one begins.
    ledgers = {task.name: bench.ledger(task) for task in TASKS}
    runs: Runs = {}

    def start(name: str) -> None:
        runs[name] = bench.run(ledgers[name], oracle)
        if name in DISTURBED:
            DISTURBED[name](bench, wait_process(bench, runs[name], works, f"the work of {name}"))

    with ThreadPoolExecutor(len(TASKS)) as pool:
        for done in [pool.submit(start, name) for name in ledgers]:
            done.result()
    return runs


def evict(bench: Bench, pod: Object) -> None:
    """What `kubectl drain` does to a pod."""
    namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": namespace}}
    bench.kube.request("POST", f"{PODS.path(namespace, name)}/eviction", body=body)


def delete(bench: Bench, pod: Object) -> None:
    bench.kube.delete(PODS, pod["metadata"]["namespace"], pod["metadata"]["name"])


def tries(run: RunHandle) -> list[TryRecord]:
    """The recorded tries of a complete run, which has one attempt."""
    run.completed(seconds=2 * SECONDS)
    found = sorted(run.recorded(), key=lambda one: one.try_number)
    assert [one.try_number for one in found] == list(range(1, len(found) + 1)), "no try is lost or twice"
    assert run.jobs() == []
    return found


def outcomes(run: RunHandle) -> list[OutcomeClass]:
    return [one.outcome for one in tries(run)]


def works(process: Process) -> bool:
    """Whether the process is what a disturbed task does in its first pod: its agent or its verifier."""
    return process.command == ["sleep", MARK]


DISTURBED: dict[str, Callable[[Bench, Object], None]] = {
    "evicted": evict,
    "deleted": delete,
    "runner-killed": kill_runner,
    "runner-oom": starve_runner,
    "judge-killed": kill_runner,
    "in-one": kill_runner,
}
"""What happens to which runs, once they are at work."""


def test_a_pod_evicted_through_the_api_is_run_again(faults: Runs) -> None:
    disturbed, passed = tries(faults["evicted"])
    assert (disturbed.outcome, passed.outcome) == (OutcomeClass.DISRUPTED, OutcomeClass.GRADED)
    assert "EvictionByEvictionAPI" in disturbed.reason
    (row,) = faults["evicted"].now().status.vector
    assert (row.score_strict, row.tries, row.infra_errors) == ("1", 2, 1)


def test_a_pod_deleted_by_hand_is_run_again(faults: Runs) -> None:
    assert outcomes(faults["deleted"]) == [OutcomeClass.DISRUPTED, OutcomeClass.GRADED]


def test_a_runner_killed_under_the_agent_never_runs_it_twice_in_a_pod(faults: Runs) -> None:
    lost, passed = tries(faults["runner-killed"])
    assert (lost.outcome, passed.outcome) == (OutcomeClass.RUNNER_RESTARTED, OutcomeClass.GRADED)
    # What was there is evidence all the same, and the two tries are two pods.
    assert lost.manifest_digest
    assert lost.pod_uid != passed.pod_uid


def test_a_runner_killed_under_the_verifier_loses_nothing(faults: Runs) -> None:
    found = tries(faults["judge-killed"])
    assert found[-1].outcome is OutcomeClass.GRADED
    assert found[-1].reward == 1
    assert found[0].outcome is not OutcomeClass.GRADED


def test_a_runner_out_of_memory_is_run_again_and_says_so(faults: Runs) -> None:
    lost, passed = tries(faults["runner-oom"])
    assert (lost.outcome, passed.outcome) == (OutcomeClass.RUNNER_RESTARTED, OutcomeClass.GRADED)
    (failure,) = faults["runner-oom"].now().status.recent_failures
    for words in (lost.reason, failure.message):
        assert "OOMKilled" in words
        assert "1 GiB" in words, "what it had, and so what to look at"


def test_a_runner_killed_in_a_shared_pod_is_run_again(faults: Runs) -> None:
    assert outcomes(faults["in-one"]) == [OutcomeClass.RUNNER_RESTARTED, OutcomeClass.GRADED]


def test_an_agent_that_eats_its_memory_gets_no_second_sample(faults: Runs) -> None:
    (only,) = tries(faults["agent-oom"])
    # sandboxd ends the process before the kernel would end the container; where the kernel has counted the
    # container as killed all the same, the kubelet starts no verifier.
    assert only.outcome in (OutcomeClass.GRADED, OutcomeClass.AGENT_OOM)
    assert "agentMemoryKill" in only.flags
    (row,) = faults["agent-oom"].now().status.vector
    assert (row.score_strict, row.valid, row.tries) == ("0", 1, 1)


def test_an_agent_that_fills_its_disk_gets_no_second_sample(faults: Runs) -> None:
    (only,) = tries(faults["disk-full"])
    assert only.outcome is OutcomeClass.AGENT_DISK_EXCEEDED
    assert "ephemeral" in only.reason.lower()
    (row,) = faults["disk-full"].now().status.vector
    assert (row.score_strict, row.valid, row.tries) == ("0", 1, 1)


def test_an_agent_that_ignores_sigterm_ends_with_its_time(faults: Runs) -> None:
    (only,) = tries(faults["ignores-term"])
    assert only.outcome is OutcomeClass.GRADED
    assert only.agent_timed_out
    assert only.reward == 1, "what it had done by then is judged"
