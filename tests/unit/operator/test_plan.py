"""What a run consists of, and what it is refused for."""

from typing import Any

import pytest

from assay.api.evaluation_run_status import RunReason
from assay.api.ledgerfile import Plan, ResourceMultiples, RetryLimits
from assay.core.plan import MAX_ATTEMPTS, PlanRefused, deadlines, make_plan, percent
from tests.operator_kit import builders as make


def refused(plan: Plan | None = None, variant: dict[str, Any] | None = None, **spec: Any) -> PlanRefused:
    run = make.run_object(**spec)
    ledger = make.run_ledger(plan=plan)
    with pytest.raises(PlanRefused) as caught:
        make_plan(
            run.spec,
            make.RUN_UID,
            [ledger],
            [make.run_variant(spec=make.variant_spec(**variant or {}))],
        )
    return caught.value


def test_every_task_variant_and_repetition_is_one_attempt() -> None:
    plan = make.plan_of(tasks=3, variants=("oracle", "nop"), repetitions=2)
    assert len(plan.attempts) == len(set(plan.attempts)) == 3 * 2 * 2


def test_the_plan_of_the_ledger_says_how_often() -> None:
    ledger = make.run_ledger(plan=Plan(repetitions=5))
    plan = make_plan(make.run_object().spec, make.RUN_UID, [ledger], [make.run_variant()])
    assert len(plan.attempts) == 5
    assert plan.deviations == ()


def test_retry_limits_may_be_lower_than_the_plans() -> None:
    plan = make.plan_of(retryLimits={"infrastructure": 0})
    assert plan.limits["ledger"] == RetryLimits(infrastructure=0)
    assert len(plan.deviations) == 1


def test_retry_limits_above_the_plans_are_refused_by_name() -> None:
    error = refused(retryLimits={"infrastructure": 9})
    assert error.reason is RunReason.PLAN_VIOLATED
    assert str(error) == "spec.retryLimits.infrastructure is 9; the plan of ledger ledger allows at most 3"


def test_a_request_above_the_limit_is_refused() -> None:
    error = refused(Plan(resources=ResourceMultiples(request_percent=200, limit_percent=100)))
    assert error.reason is RunReason.PLAN_VIOLATED
    assert "200 %" in str(error)


def test_too_many_attempts_are_refused_before_any_job() -> None:
    ledger = make.run_ledger(tasks=[make.task(f"t{number}") for number in range(1001)])
    run = make.run_object(repetitions=100)
    with pytest.raises(PlanRefused, match=str(MAX_ATTEMPTS)) as caught:
        make_plan(run.spec, make.RUN_UID, [ledger], [make.run_variant()])
    assert caught.value.reason is RunReason.TOO_MANY_ATTEMPTS


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"reuse": {"runs": [{"name": "old"}]}}, "spec.reuse"),
        ({"variant": {"agent": {"name": "x", "bundleImage": make.IMAGE}}}, "spec.agent.bundleImage"),
    ],
)
def test_what_this_version_cannot_do_is_refused_by_name(changes: dict[str, Any], field: str) -> None:
    error = refused(**changes)
    assert error.reason is RunReason.UNSUPPORTED
    assert field in str(error)


def test_timeouts_are_the_tasks_times_the_plans_multiple() -> None:
    ledger = make.run_ledger(plan=Plan(timeout_percent=150))
    (task,) = ledger.tasks.values()
    found = deadlines(make.run_object().spec, ledger, task)
    assert (found.setup_seconds, found.agent_seconds, found.verifier_seconds) == (900, 5400, 900)


def test_a_runs_own_deadline_wins_and_is_a_deviation() -> None:
    run = make.run_object(deadlines={"agentSeconds": 10})
    ledger = make.run_ledger()
    (task,) = ledger.tasks.values()
    assert deadlines(run.spec, ledger, task).agent_seconds == 10
    plan = make_plan(run.spec, make.RUN_UID, [ledger], [make.run_variant()])
    assert [one.partition(":")[0] for one in plan.deviations] == ["timeoutPercent"]


@pytest.mark.parametrize(("value", "multiple", "result"), [(1000, 25, 250), (1, 25, 1), (3, 50, 2)])
def test_multiples_are_rounded_up(value: int, multiple: int, result: int) -> None:
    assert percent(value, multiple) == result
