"""The outcome table is whole, and no class in it is a free re-roll."""

import pytest

from assay.api.ledgerfile import RetryLimits
from assay.api.outcome import OutcomeClass
from assay.core.outcomes import MAX_DELAY_SECONDS, TABLE, Disposition, Exhausted, delay_seconds

CAUSED_BY_THE_AGENT = (
    OutcomeClass.AGENT_OOM,
    OutcomeClass.AGENT_DISK_EXCEEDED,
    OutcomeClass.CONTEXT_EXCEEDED,
    OutcomeClass.BUDGET_EXHAUSTED,
    OutcomeClass.TAMPERED,
    OutcomeClass.GRADED,
)


def test_every_class_has_a_rule() -> None:
    assert set(TABLE) == set(OutcomeClass)


@pytest.mark.parametrize("outcome", CAUSED_BY_THE_AGENT)
def test_what_the_agent_can_cause_earns_no_fresh_sample(outcome: OutcomeClass) -> None:
    assert TABLE[outcome].retained


@pytest.mark.parametrize(
    "outcome", [OutcomeClass.VERIFIER_TIMEOUT, OutcomeClass.VERIFIER_CRASH, OutcomeClass.JUDGE_INCOMPLETE]
)
def test_a_failed_verdict_never_runs_the_agent_again(outcome: OutcomeClass) -> None:
    assert TABLE[outcome].disposition is Disposition.REVERIFY


def test_what_is_not_recognised_is_not_counted() -> None:
    rule = TABLE[OutcomeClass.UNRECOGNISED]
    assert not rule.retained
    assert rule.exhausted is Exhausted.INVALID


def test_only_refusals_end_as_zero_when_their_limit_is_spent() -> None:
    assert [one for one, rule in TABLE.items() if rule.exhausted is Exhausted.ZERO] == [
        OutcomeClass.REFUSED_BLOCKED
    ]


@pytest.mark.parametrize("outcome", OutcomeClass)
def test_what_is_tried_again_has_a_limit_and_what_stops_the_run_has_a_fix(outcome: OutcomeClass) -> None:
    rule = TABLE[outcome]
    again = rule.disposition in (Disposition.RERUN, Disposition.WAIT, Disposition.REVERIFY)
    assert again == (rule.limit is not None)
    assert bool(rule.fix) >= (rule.disposition is Disposition.STOP_RUN)


def test_zero_retries_means_none() -> None:
    none = RetryLimits(infrastructure=0, disruption=0, verification=0, refusal=0)
    assert {rule.allowed(none) for rule in TABLE.values()} == {0}


def test_the_wait_for_a_provider_doubles_up_to_a_bound() -> None:
    rule = TABLE[OutcomeClass.PROVIDER_RATE_LIMITED]
    waits = [delay_seconds(rule, tries) for tries in range(1, 30)]
    assert waits[:3] == [60, 120, 240]
    assert max(waits) == waits[-1] == MAX_DELAY_SECONDS
