"""Freeze before the first call: the order of times that a run's evidence has to show."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class FreezeTimes:
    """What a run's evidence says; None where it says nothing."""

    frozen_at: datetime | None
    """When the operator first verified the ledger (`status.frozenAt`)."""
    recorded_at: datetime | None
    """When the first journal segment was written, which names the ledger's digest."""
    recorded_digest: str | None
    first_call_at: datetime | None
    """When the first model call of any try began; None if there was none."""


def freeze_problems(digest: str, times: FreezeTimes) -> list[str]:
    """Why the evidence does not show that the ledger was frozen first; empty if it does."""
    found = []
    if times.frozen_at is None:
        found.append("it is not on record when the ledger was frozen")
    if times.recorded_at is None:
        found.append("there is no first journal segment")
    elif times.recorded_digest != digest:
        found.append(f"the first journal segment names ledger {times.recorded_digest}, this one is {digest}")
    order: Mapping[str, datetime | None] = {
        "the ledger was frozen": times.frozen_at,
        "the first journal segment was written": times.recorded_at,
        "the first model call began": times.first_call_at,
    }
    known = [(words, time) for words, time in order.items() if time is not None]
    for (words, time), (later_words, later) in pairwise(known):
        if later < time:
            found.append(f"{later_words} at {later.isoformat()}, before {words} at {time.isoformat()}")
    return found
