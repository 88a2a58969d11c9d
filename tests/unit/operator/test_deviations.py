"""NonStandard, field by field: every field of the plan is either held to, or a departure from it is told."""

from typing import Any

import pytest

from assay.api.ledger_plan import Plan
from assay.core.deviations import ASKED, HELD, MEASURED, Measured, ReadBy, measured_deviations
from assay.core.plan import make_plan
from tests.operator_kit import builders as make

PROMPT, OTHER = make.DIGEST, "sha256:" + "b" * 64
ASKED_CASES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "primary_metric": ({"primary_metric": "f1"}, {}, "scores are made of reward; ledger ledger plans f1"),
    "repetitions": ({}, {"repetitions": 2}, "spec.repetitions is 2; ledger ledger plans 1"),
    "timeout_percent": (
        {"timeout_percent": 200},
        {"deadlines": {"agentSeconds": 5}},
        "spec.deadlines.agentSeconds is 5 for every task; ledger ledger plans 200 % of each task's own",
    ),
    "retry_limits": (
        {},
        {"retryLimits": {"disruption": 0}},
        "spec.retryLimits.disruption is 0; ledger ledger plans 20",
    ),
    "baseline": (
        {"baseline": {"name": "control", "fingerprint": OTHER}},
        {"baseline": {"name": "oracle"}},
        "oracle has fingerprint sha256:",
    ),
}
JUDGE = {"name": "j", "criterion": "rewardHacking", "model": "m", "prompt_digest": PROMPT}
MEASURED_CASES: dict[str, tuple[dict[str, Any], str]] = {
    "judges": ({"judges": [JUDGE]}, "rewardHacking was read by m with prompt sha256:bbb"),
    "price_policy": ({"price_policy": {"sheet_digest": PROMPT}}, f"costs are of sheet {OTHER}"),
}


def deviations(plan: dict[str, Any], spec: dict[str, Any]) -> tuple[str, ...]:
    ledger = make.run_ledger(plan=Plan.model_validate(plan))
    return make_plan(make.run_object(**spec).spec, make.RUN_UID, [ledger], [make.run_variant()]).deviations


def measured(plan: dict[str, Any], judge: ReadBy, sheet: str) -> list[str]:
    return list(measured_deviations(Measured("ledger", Plan.model_validate(plan), {judge}, sheet)))


def test_every_field_of_the_plan_has_a_rule_and_every_rule_a_case() -> None:
    """A new field needs an entry in core/deviations.py, and here a case where a run departs from it."""
    assert {*ASKED, *MEASURED, *HELD} == set(Plan.model_fields)
    assert len(ASKED) + len(MEASURED) + len(HELD) == len(Plan.model_fields)
    assert (set(ASKED), set(MEASURED)) == (set(ASKED_CASES), set(MEASURED_CASES))


@pytest.mark.parametrize("field", ASKED_CASES)
def test_what_a_run_asks_for_beside_the_plan_is_told_by_its_field(field: str) -> None:
    plan, spec, says = ASKED_CASES[field]
    (deviation,) = deviations(plan, spec)
    place, _, words = deviation.partition(": ")
    alias = Plan.model_fields[field].alias or ""
    assert place.split(".")[0] == alias
    assert words.startswith(says)


@pytest.mark.parametrize("field", MEASURED_CASES)
def test_what_records_show_beside_the_plan_is_told_by_its_field(field: str) -> None:
    plan, says = MEASURED_CASES[field]
    (deviation,) = measured(plan, ReadBy("rewardHacking", "m", OTHER), OTHER)
    place, _, words = deviation.partition(": ")
    assert place.split(".")[0] == Plan.model_fields[field].alias
    assert words.startswith(says)


def test_a_run_that_follows_its_plan_departs_from_nothing() -> None:
    fingerprint = make.run_variant().fingerprint
    planned = {"repetitions": 2, "baseline": {"name": "control", "fingerprint": fingerprint}}
    own = {"repetitions": 2, "baseline": {"name": "oracle"}, "retryLimits": {"infrastructure": 3}}
    assert deviations(planned, own) == ()
    plan = {"judges": [JUDGE], "price_policy": {"sheet_digest": PROMPT}}
    assert measured(plan, ReadBy("rewardHacking", "m", PROMPT), PROMPT) == []


def test_a_run_without_the_planned_baseline_says_so() -> None:
    planned = {"baseline": {"name": "control", "fingerprint": OTHER}}
    assert deviations(planned, {}) == ("baseline: the run has none; ledger ledger plans control",)


def test_each_ledger_is_held_against_its_own_plan() -> None:
    ledgers = [make.run_ledger("one", plan=Plan(repetitions=3)), make.run_ledger("two")]
    spec = make.run_object(repetitions=3, ledgers=[{"name": "one"}, {"name": "two"}]).spec
    plan = make_plan(spec, make.RUN_UID, ledgers, [make.run_variant()])
    assert plan.deviations == ("repetitions: spec.repetitions is 3; ledger two plans 1",)
