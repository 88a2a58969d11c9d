"""Freeze before the first call: the order of times that a run's evidence has to show."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from assay.api.attempt_record import LedgerFacts, RunRecord
from assay.core.score_input import ScoreInput


@dataclass(frozen=True, slots=True)
class FreezeTimes:
    """What a run's evidence says; None where it says nothing."""

    frozen_at: datetime | None
    """When the operator first verified the ledger (`status.frozenAt`)."""
    recorded_at: datetime | None
    """When the first journal segment was written, which names the ledger's digest."""
    recorded_digest: str | None
    first_call_at: datetime | None
    """When the first model call of any try began; None if there was none, or nobody knows."""
    calls_undated: int = 0
    """Results whose tries may have called a model at a time that is not on record."""


def freeze_times(given: ScoreInput, ledger: str) -> Iterator[tuple[RunRecord, LedgerFacts, FreezeTimes]]:
    """What the evidence of each run says of a ledger."""
    for run in sorted(given.runs.values(), key=lambda one: one.name):
        for facts in run.ledgers:
            if facts.name != ledger:
                continue
            rows = [
                found
                for pair, found in given.collection.pairs.items()
                if pair.ledger == ledger and found.run_uid == run.uid
            ]
            calls = [found.first_call for found in rows if found.first_call is not None]
            yield (
                run,
                facts,
                FreezeTimes(
                    frozen_at=facts.frozen_at,
                    recorded_at=facts.recorded_at,
                    recorded_digest=facts.recorded_digest,
                    first_call_at=min(calls, default=None),
                    calls_undated=sum(found.calls_undated for found in rows),
                ),
            )


def freeze_words(times: FreezeTimes) -> str:
    """The times as a sentence's middle, e.g. for a report."""
    called = _shown(times.first_call_at, "none" if not times.calls_undated else "unknown")
    return (
        f"frozen {_shown(times.frozen_at)}, recorded {_shown(times.recorded_at)}, first model call {called}"
    )


def _shown(time: datetime | None, otherwise: str = "unknown") -> str:
    return time.isoformat() if time else otherwise


def freeze_problems(digest: str, times: FreezeTimes) -> list[str]:
    """Why the evidence does not show that the ledger was frozen first; empty if it does."""
    found = []
    if times.frozen_at is None:
        found.append("it is not on record when the ledger was frozen")
    if times.recorded_at is None:
        found.append("there is no first journal segment")
    elif times.recorded_digest != digest:
        found.append(f"the first journal segment names ledger {times.recorded_digest}, this one is {digest}")
    if times.calls_undated:
        found.append(
            f"of {times.calls_undated} attempts it is not on record when their first model call began"
        )
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
