"""What Harbor's results mean, case by case; real result folders are imported in tests/harbor_jobs."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from assay.api.attempt_record import AttemptRecord
from assay.api.outcome import OutcomeClass
from assay.core.harbor_import import HarborImportError, Trial, import_trials, read_trial
from tests.unit.report.samples import DIGEST, ledger_file, report

START = datetime(2026, 11, 30, 12, tzinfo=UTC)


def trial(rewards: dict[str, Any] | str | None = None, exception: str | None = None, **changes: Any) -> Trial:
    """A trial as Harbor writes it; `rewards` may be raw JSON."""
    beside = {name: changes.pop(name) for name in ("judge_figures", "task_digest") if name in changes}
    document = {
        "id": "1662b2ad-7989-4c3f-a2f6-41dbdeab1610",
        "task_name": "org/task",
        "trial_name": "task__abc",
        "agent_info": {"name": "codex", "version": "1.0", "model_info": None},
        "config": {"agent": {"name": "codex", "model_name": "openai/gpt-6.1-sol"}},
        "verifier_result": None if rewards is None else {"rewards": rewards},
        "exception_info": exception and {"exception_type": exception, "exception_message": "so it was\nmore"},
        "started_at": START.isoformat(),
        "finished_at": (START + timedelta(seconds=90)).isoformat(),
        "agent_execution": {"started_at": START.isoformat(), "finished_at": START.isoformat()},
        **changes,
    }
    content = json.dumps(document)
    if isinstance(rewards, str):
        content = content.replace(json.dumps(rewards), rewards)
    return Trial("job/task__abc/result.json", read_trial(content.encode(), "result.json"), **beside)


def imported(*trials: Trial, **given: Any) -> list[AttemptRecord]:
    return import_trials(trials, "job", "job", **given)


def one(*arguments: Any, **changes: Any) -> AttemptRecord:
    (record,) = imported(trial(*arguments, **changes))
    return record


def test_an_agent_timeout_with_a_verdict_is_a_score() -> None:
    """BAR 5: the verdict stands, and nothing asks for another try."""
    record = one({"reward": 1.0}, "AgentTimeoutError")
    assert (record.retained, record.outcome, record.reward) == (True, OutcomeClass.GRADED, 1)
    assert record.agent_timed_out


@pytest.mark.parametrize(
    "rewards", ['{"reward": NaN}', '{"reward": false}', '{"reward": "1"}', '{"reward": 1.7}']
)
def test_a_bad_verdict_is_no_score(rewards: str) -> None:
    """BAR 5, negatives."""
    record = one(rewards)
    assert (record.retained, record.outcome, record.reward) == (False, OutcomeClass.INVALID_RESULT, None)


def test_minus_1_is_a_crash_of_deepswe_s_verifier() -> None:
    record = one({"reward": -1})
    assert (record.retained, record.outcome, record.reward) == (False, OutcomeClass.VERIFIER_CRASH, None)


def test_partial_figures_of_deepswe_are_kept_and_decide_nothing() -> None:
    record = one({"reward": 0, "f2p": 0.5, "p2p": 1.0, "partial": 0.75, "apply_failed": 0})
    assert (record.outcome, record.reward, record.figures["partial"]) == (OutcomeClass.GRADED, 0, 0.75)
    (row,) = report([record]).vector
    assert row.score.strict == 0


@pytest.mark.parametrize(("unscored", "outcome"), [(2, "JudgeIncomplete"), (0, "Graded")])
def test_unanswered_rubrics_make_the_attempt_ungraded_never_a_pass(unscored: int, outcome: str) -> None:
    judge = {"num_unscored_must_have": unscored, "rubric_scores": [], "pass": True}
    record = one({"reward": 1}, judge_figures=judge)
    assert (record.outcome, record.retained) == (outcome, unscored == 0)
    assert record.reward == (None if unscored else 1)


@pytest.mark.parametrize(
    ("exception", "outcome", "retained"),
    [
        ("ApiRateLimitError", "ProviderRateLimited", False),
        ("AuthenticationError", "ProviderAuth", False),
        ("VerifierTimeoutError", "VerifierTimeout", False),
        ("RewardFileNotFoundError", "VerifierCrash", False),
        ("EnvironmentStartTimeoutError", "InfraStart", False),
        ("CancelledError", "Disrupted", False),
        ("AgentSafetyRefusalError", "RefusedBlocked", True),
        ("ContextWindowExceededError", "ContextExceeded", True),
        ("NonZeroAgentExitCodeError", "Graded", True),
        ("SomethingNewError", "Graded", True),
    ],
)
def test_the_exception_decides_the_class(exception: str, outcome: str, retained: bool) -> None:
    record = one({"reward": 1.0}, exception)
    assert (record.outcome, record.retained) == (outcome, retained)


def test_a_blocked_attempt_scores_0_whatever_the_verifier_said() -> None:
    (row,) = report([one({"reward": 1.0}, "AgentSafetyRefusalError")]).vector
    assert (row.score.strict, row.rates.blocked.count) == (0, 1)


@pytest.mark.parametrize(
    ("changes", "outcome"),
    [
        ({"agent_execution": None}, "SetupFailed"),
        ({"verifier": {"started_at": START.isoformat(), "finished_at": None}}, "VerifierCrash"),
        ({}, "Unrecognised"),
    ],
)
def test_an_unknown_exception_without_a_verdict_is_not_counted(changes: dict[str, Any], outcome: str) -> None:
    record = one(None, "SomethingNewError", **changes)
    assert (record.outcome, record.retained, record.reason) == (
        outcome,
        False,
        "SomethingNewError: so it was",
    )


def test_what_harbor_cannot_know_stays_unknown() -> None:
    used = {"n_input_tokens": 100, "n_cache_tokens": 40, "n_output_tokens": 10, "cost_usd": 0.0}
    record = one({"reward": 1}, agent_result=used)
    assert (record.tokens.input, record.tokens.cache_read, record.tokens.output) == (100, 40, 10)
    assert (record.tokens.cache_write_5m, record.tokens.reasoning, record.calls) == (None, None, None)
    (row,) = report([record]).vector
    assert row.usage.cost_usd.mean is None
    assert record.total_seconds == 90


def test_tokens_of_steps_are_added_and_a_gap_makes_the_sum_unknown() -> None:
    steps = [{"agent_result": {"n_input_tokens": 1, "n_output_tokens": count}} for count in (2, None)]
    record = one({"reward": 1}, step_results=steps)
    assert (record.tokens.input, record.tokens.output) == (2, None)


def test_repetitions_follow_the_starts_in_any_order_of_reading() -> None:
    trials = [
        trial({"reward": reward}, id=str(reward), started_at=(START + timedelta(minutes=at)).isoformat())
        for reward, at in ((0, 2), (1, 1), (0.5, 3))
    ]
    records = imported(*trials)
    assert [(record.repetition, record.reward) for record in records] == [(0, 1), (1, 0), (2, 0.5)]
    assert imported(*reversed(trials)) == records


def test_an_agent_with_another_model_is_another_variant() -> None:
    other = trial({"reward": 1}, config={"agent": {"name": "codex", "model_name": "openai/other"}})
    assert {record.variant for record in imported(trial({"reward": 1}), other)} == {
        "codex/openai/gpt-6.1-sol",
        "codex/openai/other",
    }


def test_changed_timeouts_are_flagged() -> None:
    config = {"agent": {"name": "codex"}, "timeout_multiplier": 16.0}
    assert one({"reward": 1}, config=config).flags == ["timeoutMultiplier"]


def test_the_ledger_checks_the_tasks() -> None:
    file = ledger_file({"org/task": "x"})
    (record,) = imported(trial({"reward": 1}, task_digest=DIGEST), file=file)
    assert (record.ledger_digest, record.task) == (file.digest, "org/task")
    with pytest.raises(HarborImportError, match="these are not the ledger's tasks"):
        imported(trial({"reward": 1}, task_digest=f"sha256:{'2' * 64}"), file=file)
    with pytest.raises(HarborImportError, match="task_name org/task is not in ledger sample"):
        imported(trial({"reward": 1}), file=ledger_file({"org/other": "x"}))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"id": "1"}', "task_name: Field required; is it a trial of Harbor"),
        (b'{"id": "1", ', "the document: Invalid JSON"),
    ],
)
def test_a_file_that_is_no_trial_is_refused(content: bytes, message: str) -> None:
    with pytest.raises(HarborImportError, match=message):
        read_trial(content, "job/x/result.json")
