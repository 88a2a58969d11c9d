"""Why an attempt stands as it does, in words."""

from dataclasses import replace

from assay.api.ledgerfile import RetryLimits
from assay.api.outcome import OutcomeClass
from assay.core.attempts import attempt_state
from assay.core.explanation import explain_state, explain_tries
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
