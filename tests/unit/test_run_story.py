"""What a run's status says to a person, without a cluster."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from assay.api.evaluation_run import EvaluationRun
from assay.api.evaluation_run_status import VectorRow
from assay.core import run_story as story

DIGEST = "sha256:" + "a" * 64


def run(*conditions: tuple[str, str, str, str], **attempts: int) -> EvaluationRun:
    """A run whose conditions are (type, status, reason, message)."""
    stated = [
        {
            "type": type_,
            "status": status,
            "reason": reason,
            "message": message,
            "observedGeneration": 1,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        for type_, status, reason, message in conditions
    ]
    return EvaluationRun.parse(
        {
            "metadata": {"name": "demo-1", "namespace": "evals"},
            "spec": {
                "ledgers": [{"name": "one"}],
                "variants": [{"name": "oracle"}],
                "storage": {"s3": {"bucket": "evidence"}},
            },
            "status": {"conditions": stated, "attempts": attempts},
        }
    )


def row(**more: Any) -> VectorRow:
    known = {
        "ledger": "one",
        "variant": "oracle",
        "planned": 6,
        "valid": 6,
        "coverage": "1",
        "ledgerDigest": DIGEST,
    }
    return VectorRow.model_validate(known | more)


def shown(**more: Any) -> dict[str, str]:
    headings, rows = story.vector_table([row(**more)])
    return dict(zip(headings, rows[0], strict=True))


def test_progress_says_how_far_and_why() -> None:
    going = run(
        ("Progressing", "False", "WaitingForStorage", "s3://x: no bucket"), planned=4, waiting=3, recorded=1
    )
    assert story.progress_line(going) == (
        "1 of 4 attempts recorded, 0 live  WaitingForStorage: s3://x: no bucket"
    )


def test_attempts_without_a_score_are_never_silent() -> None:
    assert "2 without a score" in story.progress_line(run(planned=2, invalid=2))


def test_a_failure_outweighs_everything_else() -> None:
    failed = run(("Progressing", "False", "Finished", ""), ("Failed", "True", "NoValidAttempt", "0 of 1"))
    assert story.doing(failed) == "NoValidAttempt: 0 of 1"
    assert story.ended(failed)
    assert not story.completed(failed)


@pytest.mark.parametrize(("reason", "stops"), [("IsolationAbsent", True), ("Requested", False)])
def test_only_a_suspension_that_nobody_asked_for_ends_the_demonstration(reason: str, stops: bool) -> None:
    assert story.stopped(run(("Suspended", "True", reason, "why"))) is stops


def test_what_is_unknown_is_a_dash_and_never_zero() -> None:
    cells = shown()
    assert (cells["strict"], cells["tokens in"], cells["USD"]) == (story.UNKNOWN,) * 3


def test_a_mean_names_its_n_where_values_are_missing() -> None:
    assert shown(inputTokens={"mean": "4864.17", "n": 6})["tokens in"] == "4,864.2"
    assert shown(inputTokens={"mean": "10", "n": 2})["tokens in"] == "10.0 (n=2)"


def test_the_verdict_stands_before_the_figures() -> None:
    refused = run(("Publishable", "False", "PrerequisitesMissing", "no baseline"))
    assert story.publishable(refused) == "NOT PUBLISHABLE: no baseline"
    assert story.publishable(run()).startswith("NOT PUBLISHABLE")


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0, "0s"), (59, "59s"), (60, "1m"), (150, "2m30s"), (3600, "1h"), (3905, "1h5m"), (273_600, "3d4h")],
)
def test_a_duration_is_its_two_largest_units(seconds: int, shown: str) -> None:
    assert story.duration(timedelta(seconds=seconds)) == shown


@pytest.mark.parametrize(
    ("conditions", "state"),
    [
        ([("Complete", "True", "AllRecorded", "")], "Complete"),
        ([("Failed", "True", "NoValidAttempt", "")], "Failed"),
        ([("Suspended", "True", "Requested", "")], "Suspended"),
        ([("Suspended", "True", "ProviderAuth", "the key was refused")], "Stopped"),
        ([("Progressing", "True", "Running", "")], "Running"),
        ([("Progressing", "False", "WaitingForStorage", "")], "Waiting"),
        ([], "Waiting"),
    ],
)
def test_the_state_is_one_word(conditions: list[tuple[str, str, str, str]], state: str) -> None:
    assert story.state(run(*conditions)) == state


def test_the_rest_takes_as_long_as_the_part_so_far_lets_expect() -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    begun = run(planned=10, recorded=2, invalid=2, waiting=6)
    status = begun.status.model_copy(update={"started_at": start})
    half = begun.model_copy(update={"status": status})
    assert story.time_left(half, start + timedelta(minutes=4)) == "6m"
    assert story.time_left(begun, start) is None, "nothing is known before the start"


def test_interval_shift_and_ledger_stand_beside_the_score_once_they_say_something() -> None:
    headings, _ = story.vector_table([row(scoreStrict="0.5")])
    assert not {"ledger", "95 %", "shift"} & set(headings)
    rows = [row(scoreStrict="0.5", scoreInterval="0.25 0.75"), row(ledger="two", shift="-0.125")]
    headings, cells = story.vector_table(rows)
    first, second = (dict(zip(headings, line, strict=True)) for line in cells)
    assert (first["ledger"], first["95 %"], first["shift"]) == ("one", "0.250 to 0.750", "—")
    assert (second["ledger"], second["95 %"], second["shift"]) == ("two", "—", "-0.125")


def test_the_table_names_the_baseline_and_no_score_that_cannot_be() -> None:
    rows = [row(scoreStrict="0.5", scoreInterval="-0.25 1.25"), row(variant="other")]
    _, (first, second) = story.vector_table(rows, baseline="other")
    assert "0.000 to 1.000" in first
    assert (first[0].endswith(" (baseline)"), second[0]) == (False, "other (baseline)")
