"""Why an attempt stands as it does, in words."""

from dataclasses import replace

from assay.api.ledgerfile import RetryLimits
from assay.api.outcome import OutcomeClass
from assay.core.attempts import NextTry, Scored, attempt_state
from assay.core.explanation import explain_state, explain_tries, state_of, tries_by_attempt
from assay.core.record import AttemptKey, TryRecord
from tests.operator_kit import builders as make

LOST = TryRecord(
    AttemptKey("ledger", "task-a", "oracle", 0),
    1,
    "task-a-1",
    OutcomeClass.INFRA_START,
    "the image could not be pulled",
    make.NOW,
)
PASSED = replace(LOST, try_number=2, outcome=OutcomeClass.GRADED, reason="reward 1", reward=1.0)


def test_a_replaced_try_and_the_one_that_counts() -> None:
    records = [LOST, PASSED]
    state = attempt_state(records, RetryLimits())
    lost, passed = explain_tries(records, state)
    assert (lost.fate, passed.fate) == ("replaced", "retained")
    assert lost.follows == "another try; limit: infrastructure"
    assert passed.follows == "the attempt's result"
    assert explain_state(state, make.NOW) == "scored 1: try 2 is the result"


def test_an_attempt_that_spent_its_limit_says_which() -> None:
    state = attempt_state([LOST], RetryLimits(infrastructure=0))
    words = explain_state(state, make.NOW)
    assert words.startswith("invalid, it lowers coverage: InfraStart in 1 tries")
    assert "infrastructure is 0" in words


def test_a_try_that_waits_says_until_when() -> None:
    limited = replace(LOST, outcome=OutcomeClass.PROVIDER_RATE_LIMITED)
    words = explain_state(attempt_state([limited], RetryLimits(infrastructure=3)), make.NOW)
    assert words == "waits for try 2, not before 12:01:00 UTC"


def test_a_try_that_stops_the_run_names_the_fix() -> None:
    refused = replace(LOST, outcome=OutcomeClass.PROVIDER_AUTH, reason="401 from the provider")
    words = explain_state(attempt_state([refused], RetryLimits()), make.NOW)
    assert words.startswith("stops the run: ProviderAuth: 401 from the provider; check the Secret")


def test_the_state_of_an_attempt_follows_from_the_records_of_its_run_in_any_order() -> None:
    plan, run = make.plan_of(tasks=2), make.run_object()
    first, second = sorted(plan.attempts)
    records = [replace(PASSED, key=first), replace(LOST, key=first)]
    tries = tries_by_attempt(records)
    assert [one.try_number for one in tries[first]] == [1, 2]
    assert isinstance(state_of(run, plan, tries, first, make.NOW), Scored)
    assert state_of(run, plan, tries, second, make.NOW) == NextTry(1)
