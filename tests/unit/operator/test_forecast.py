"""What a run may take at most."""

from assay.api.ledgerfile import Plan, ResourceMultiples, RetryLimits, TaskResources, TaskTimeouts
from assay.core.forecast import forecast
from assay.core.plan import make_plan
from tests.operator_kit import builders as make

TIMES = TaskTimeouts(setup_seconds=10, agent_seconds=100, verifier_seconds=20)


def test_the_bounds_of_a_run() -> None:
    tasks = [
        make.task("small", cluster="one", timeouts=TIMES),
        make.task(
            "large",
            cluster="one",
            timeouts=TIMES.model_copy(update={"agent_seconds": 300}),
            resources=TaskResources(cpu_millis=4000, memory_mib=8192),
        ),
    ]
    planned = Plan(
        repetitions=2,
        retry_limits=RetryLimits(infrastructure=1, disruption=2, verification=3, refusal=0),
        resources=ResourceMultiples(request_percent=50, limit_percent=100),
    )
    run = make.run_object(parallelism=2, deadlines={"pendingSeconds": 30, "uploadSeconds": 40})
    ledger = make.run_ledger(tasks=tasks, plan=planned)
    found = forecast(run.spec, make_plan(run.spec, make.RUN_UID, [ledger], [make.run_variant()]))

    assert found.attempts == 4
    assert found.most_tries == 4 * (1 + 1 + 2 + 3)
    # Each try: pending 30, setup 10, agent 100 or 300, verifier 20, upload 40.
    assert found.most_seconds == (2 * 200 + 2 * 400) // 2 + 400
    (one,) = found.ledgers
    assert (one.tasks, one.clusters, one.repetitions, one.attempts) == (2, 1, 2, 4)
    assert one.longest_try_seconds == 400
    assert (one.cpu_millis, one.memory_mib) == ((2000, 4000), (4096, 8192))
