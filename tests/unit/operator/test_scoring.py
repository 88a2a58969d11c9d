"""The score vector: a missing reward is neither 0 nor dropped (BAR 1), and unknown is not zero (BAR 7)."""

from collections.abc import Sequence

import pytest

from assay.api.evaluation_run_status import VectorRow
from assay.api.outcome import OutcomeClass
from assay.core.record import AttemptKey, TryRecord, TryTokens
from assay.core.row_sums import RowSums
from assay.core.scoring import decimal_string, vector_row
from tests.operator_kit import builders as make

Rewards = Sequence[float | None]


def record(key: AttemptKey, outcome: OutcomeClass, reward: float | None, **figures: object) -> TryRecord:
    base = {"ended_at": make.NOW, "reason": "", "job_name": str(key), "try_number": 1}
    return TryRecord(key=key, outcome=outcome, reward=reward, **{**base, **figures})  # type: ignore[arg-type]


def row_of(tasks: dict[str, Rewards], **figures: object) -> VectorRow:
    """A row whose tasks have those rewards; None is an attempt that the infrastructure lost."""
    sums = RowSums()
    for task, rewards in tasks.items():
        for repetition, reward in enumerate(rewards):
            key = AttemptKey("ledger", task, "oracle", repetition)
            outcome = OutcomeClass.DISRUPTED if reward is None else OutcomeClass.GRADED
            sums.outcomes[outcome] += 1
            if reward is not None:
                sums.retain(record(key, outcome, reward, **figures), reward)
    return vector_row("ledger", "oracle", sums, len(tasks), max(map(len, tasks.values())))


def test_bar_1_strict_valid_and_coverage_stand_side_by_side() -> None:
    row = row_of({"a": [1, 1, None, None]})
    assert (row.score_strict, row.score_valid, row.coverage) == ("0.5", "1", "0.5")
    assert (row.planned, row.valid, row.infra_errors, row.tries) == (4, 2, 2, 4)


def test_the_mean_is_over_tasks_not_over_attempts() -> None:
    row = row_of({"a": [1, 1, 1], "b": [0]})
    assert row.score_strict == row.score_valid == "0.5"


def test_the_worked_example_of_the_method_notes() -> None:
    row = row_of({"A": [1, 1, 1], "B": [1, 1, 0], "C": [1, 0, 0], "D": [0, 0, 0]})
    assert row.score_strict == "0.5"


def test_a_task_without_any_valid_attempt_counts_in_the_strict_score_alone() -> None:
    row = row_of({"a": [1, 1], "b": [None, None]})
    assert (row.score_strict, row.score_valid) == ("0.5", "1")


def test_without_any_score_there_is_no_rate_at_all() -> None:
    row = row_of({"a": [None]})
    assert (row.score_strict, row.score_valid, row.coverage) == (None, None, "0")


def test_attempts_that_are_still_to_be_made_are_missing() -> None:
    sums = RowSums()
    sums.retain(record(AttemptKey("ledger", "a", "oracle", 0), OutcomeClass.GRADED, 1.0), 1.0)
    row = vector_row("ledger", "oracle", sums, tasks=2, repetitions=1)
    assert (row.score_strict, row.score_valid, row.coverage) == ("0.5", "1", "0.5")


def test_unknown_figures_are_left_out_with_their_number_shown() -> None:
    known = row_of({"a": [1.0]}, tokens=TryTokens(input=100), agent_seconds=2.5)
    assert known.input_tokens is not None
    assert (known.input_tokens.mean, known.input_tokens.n) == ("100", 1)
    assert known.output_tokens is None
    assert known.cost_usd is None
    assert known.agent_seconds is not None
    assert (known.agent_seconds.mean, known.agent_seconds.n) == ("2.5", 1)


def test_a_note_about_the_image_flags_no_try() -> None:
    assert row_of({"a": [1.0]}, flags=("PinExternal",)).flagged == 0
    assert row_of({"a": [1.0]}, flags=("PinExternal", "UndeclaredConfig")).flagged == 1


def test_the_harness_is_named_only_where_it_is_the_same_for_all() -> None:
    assert row_of({"a": [1.0]}, harbor_version="0.26.0").harbor_version == "0.26.0"
    assert row_of({"a": [1.0]}).harbor_version is None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (1.0, "1"),
        (2 / 3, "0.666667"),
        (0.1 + 0.2, "0.3"),
        (1e-9, "0"),
        (1234567.5, "1234567.5"),
        (100, "100"),
    ],
)
def test_numbers_are_plain_decimals(value: float, text: str) -> None:
    assert decimal_string(value) == text
