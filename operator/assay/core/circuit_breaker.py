"""The circuit breaker: a run whose first attempts all fail alike has one fault, not ten (cases.md B10).

It follows from the recorded tries alone, so it survives every restart.
"""

import re
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from heapq import nsmallest

from assay.api.outcome import OutcomeClass
from assay.core.outcomes import Disposition
from assay.core.record import TryRecord

FIRST_ATTEMPTS = 10
"""So many attempts must have failed alike. Of a smaller run the retry limits are guard enough."""
FEWEST_TASKS = 3
"""One broken task is no fault of the run, however often it is repeated."""

_SHAPE_CHARACTERS = 100
_VARIES = re.compile(r"\S*[\d@/\"]\S*")
"""Words that differ between tries of the same fault: names, images, digests, times, addresses."""


def earliest(tries: Iterable[TryRecord | None]) -> tuple[TryRecord, ...]:
    """The first of the attempts' first telling tries, oldest first; at most FIRST_ATTEMPTS."""
    told = (record for record in tries if record is not None)
    return tuple(nsmallest(FIRST_ATTEMPTS, told, key=lambda one: (one.ended_at, one.job_name)))


def all_alike(first: Sequence[TryRecord], tasks: int) -> bool:
    """Whether the first attempts of a run of `tasks` tasks are enough, and all failed for the same reason."""
    if len(first) < FIRST_ATTEMPTS or not all(one.rule.infrastructure for one in first):
        return False
    if len({(one.key.ledger, one.key.task) for one in first}) < min(FEWEST_TASKS, tasks):
        return False
    return len({(one.outcome, shape(one.reason)) for one in first}) == 1


def shape(reason: str) -> str:
    """A reason without what differs from try to try."""
    return " ".join(_VARIES.sub("#", reason).split())[:_SHAPE_CHARACTERS]


def first_telling(records: Sequence[TryRecord], resumed_at: datetime | None) -> TryRecord | None:
    """The first try of an attempt, by their numbers, that says whether the run works at all.

    What began before `resumed_at`, when a person let the run go on, tells nothing any more.
    """
    return next((one for one in records if tells(one) and not _is_past(one, resumed_at)), None)


def tells(record: TryRecord) -> bool:
    """Whether the end of the try says whether the run works at all."""
    if record.rule.disposition in (Disposition.STOP_RUN, Disposition.WAIT) or not record.rule.counted:
        return False
    # A node that goes takes many first tries along; only what hits the next ones too is a fault of the run.
    return record.outcome is not OutcomeClass.DISRUPTED or record.try_number > 1


def _is_past(record: TryRecord, resumed_at: datetime | None) -> bool:
    if resumed_at is None:
        return False
    return record.ended_at - timedelta(seconds=record.total_seconds or 0.0) <= resumed_at
