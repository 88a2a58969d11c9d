"""Conditions: the transition time moves only when the status flips, and messages stay short."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from assay.api.conditions import MESSAGE_LIMIT, Condition, find_condition, is_true, truncated, with_condition
from assay.api.evaluation_run_status import AttemptCounts, EvaluationRunStatus, RunCondition, RunReason
from assay.api.resource import status_document

NOON = datetime(2026, 11, 30, 12, 0, 0, 123456, tzinfo=UTC)
LATER = NOON + timedelta(hours=1)


def complete(
    conditions: list[Condition], status: bool, message: str = "", now: datetime = NOON
) -> tuple[list[Condition], bool]:
    reason = RunReason.ALL_RECORDED if status else RunReason.ATTEMPTS_OUTSTANDING
    return with_condition(conditions, RunCondition.COMPLETE, status, reason, message, generation=1, now=now)


def test_a_new_condition_is_a_change() -> None:
    conditions, changed = complete([], False)
    assert changed
    assert conditions[0].last_transition_time == NOON.replace(microsecond=0)
    assert not is_true(conditions, RunCondition.COMPLETE)


def test_saying_the_same_again_changes_nothing() -> None:
    first, _ = complete([], False, "3 of 9")
    again, changed = complete(first, False, "3 of 9", LATER)
    assert not changed
    assert again == first


def test_a_new_message_is_a_change_and_no_transition() -> None:
    first, _ = complete([], False, "3 of 9")
    again, changed = complete(first, False, "4 of 9", LATER)
    assert changed
    assert again[0].last_transition_time == first[0].last_transition_time


def test_a_flip_is_a_transition() -> None:
    first, _ = complete([], False)
    again, changed = complete(first, True, now=LATER)
    assert changed
    assert again[0].last_transition_time == LATER.replace(microsecond=0)
    assert is_true(again, RunCondition.COMPLETE)


def test_order_and_neighbours_stay() -> None:
    conditions, _ = complete([], False)
    conditions, _ = with_condition(
        conditions, RunCondition.STALLED, "Unknown", RunReason.MOVING, generation=1, now=NOON
    )
    again, _ = complete(conditions, True, now=LATER)
    assert [one.type for one in again] == ["Complete", "Stalled"]
    assert again[1] == conditions[1]
    assert find_condition(again, "Absent") is None


def test_a_long_message_is_cut_visibly() -> None:
    conditions, _ = complete([], False, "x" * 10_000)
    assert len(conditions[0].message) == MESSAGE_LIMIT
    assert conditions[0].message.endswith("…")
    assert truncated("short", 5) == "short"


def test_times_are_written_in_utc() -> None:
    conditions, _ = complete([], False, now=NOON.astimezone(timezone(timedelta(hours=5))))
    document = status_document(EvaluationRunStatus(conditions=conditions))
    assert document["conditions"][0]["lastTransitionTime"] == "2026-11-30T12:00:00Z"


def test_attempt_states_are_disjoint_and_add_up() -> None:
    assert AttemptCounts(planned=4, waiting=1, live=1, recorded=1, invalid=1).planned == 4
    with pytest.raises(ValueError, match="is 3, but planned is 2"):
        AttemptCounts(planned=2, waiting=1, live=1, recorded=1)
