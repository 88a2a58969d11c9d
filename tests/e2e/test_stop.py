"""A person stops a run whose agents work: the pods end, what they did is kept, and the run goes on later."""

from assay.api.outcome import OutcomeClass
from tests.e2e.bench import Bench, RunHandle
from tests.e2e.node_processes import wait_process
from tests.e2e.tasks import LEAVE_ANSWER, Task

AT_FIRST = "case $(cat /proc/sys/kernel/hostname) in *-t1-*) sleep 611;; esac"


def test_a_stop_ends_the_pods_keeps_their_evidence_and_costs_no_try(bench: Bench) -> None:
    run = bench.run(
        bench.ledger(Task("stopped", solve=f"{AT_FIRST}\n{LEAVE_ANSWER}")), bench.variant("oracle")
    )
    wait_process(bench, run, lambda one: one.command == ["sleep", "611"], "the agent's work")
    change(bench, run, '{"spec": {"suspend": true, "suspendPolicy": "Stop"}}')
    bench.until(lambda: not run.pods() and not run.jobs(), "no pod and no Job is left")
    (stopped,) = run.recorded()
    assert stopped.outcome is OutcomeClass.STOPPED
    assert stopped.manifest_digest, "the runner saved its evidence when it was told to go"
    change(bench, run, '{"spec": {"suspend": false}}')
    status = run.completed().status
    assert [(one.outcome, one.try_number) for one in run.recorded()] == [
        (OutcomeClass.STOPPED, 1),
        (OutcomeClass.GRADED, 2),
    ]
    (row,) = status.vector
    assert (row.score_strict, row.infra_errors) == ("1", 0)
    for left in run.evidence():
        left.assert_complete()


def change(bench: Bench, run: RunHandle, patch: str) -> None:
    """Merge-patch the run, as a person does with kubectl."""
    bench.kubectl(
        "patch", "evaluationrun", run.name, "--namespace", run.namespace, "--type=merge", "-p", patch
    )
