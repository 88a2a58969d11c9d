"""The operator dies in the middle of a run; nothing is lost and nothing is done twice."""

from demo.install import SYSTEM_NAMESPACE
from tests.e2e.bench import Bench
from tests.e2e.tasks import LEAVE_ANSWER, Task
from tests.e2e.trouble import OPERATOR, kill, wait_container


def test_a_killed_operator_changes_nothing_in_the_result(bench: Bench) -> None:
    ledger = bench.ledger(
        *(Task(f"steady-{number}", solve=f"sleep 3\n{LEAVE_ANSWER}") for number in range(3))
    )
    oracle, nop = bench.variant("oracle"), bench.variant("nop")
    run = bench.run(ledger, [oracle, nop])
    wait_container(bench, run, "environment")
    kill(bench, SYSTEM_NAMESPACE, OPERATOR)
    run.wait(lambda found: found["status"]["attempts"]["recorded"] >= 2, "two attempts recorded")
    kill(bench, SYSTEM_NAMESPACE, OPERATOR)
    status = run.completed(seconds=300).status

    assert {row.variant: row.score_strict for row in status.vector} == {oracle: "1", nop: "0"}
    assert {row.variant: (row.tries, row.infra_errors) for row in status.vector} == {
        oracle: (3, 0),
        nop: (3, 0),
    }
    assert len(run.recorded()) == 6
    assert run.jobs() == [], "a Job goes when its result is durable"
    evidence = run.evidence()
    assert len(evidence) == 6
    for left in evidence:
        left.assert_complete()
