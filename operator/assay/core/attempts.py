"""What becomes of an attempt after its recorded tries: a function of the records alone."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from assay.api.ledgerfile import RetryLimits
from assay.core.outcomes import Disposition, Exhausted, Limit, Rule, delay_seconds
from assay.core.record import TryRecord


@dataclass(frozen=True, slots=True)
class Scored:
    """The attempt has its result: `retained` decides, the other tries are replaced."""

    retained: TryRecord
    score: float


@dataclass(frozen=True, slots=True)
class Invalid:
    """The attempt ends without a result. `why` is for a person."""

    last: TryRecord
    why: str


@dataclass(frozen=True, slots=True)
class NextTry:
    """The attempt needs a try of this number, not before a time."""

    number: int
    not_before: datetime | None = None


@dataclass(frozen=True, slots=True)
class Halts:
    """The attempt's last try stops the whole run until a person has mended the cause."""

    last: TryRecord


AttemptState = Scored | Invalid | NextTry | Halts


def attempt_state(
    records: Sequence[TryRecord],
    limits: RetryLimits,
    resumed_at: datetime | None = None,
    rounds: int = 1,
) -> AttemptState:
    """State of an attempt from its recorded tries in the order of their numbers.

    The first try whose class is retained is the result. Else the last try's class decides, against the number
    of tries that drew on the same limit. A try that stopped the run before `resumed_at`, when a person let it
    go on, counts against the limit for infrastructure instead. `rounds` is how often the run was asked to try
    what has no score: each round has the limits anew.
    """
    for record in records:
        if record.rule.retained:
            return Scored(record, record.reward or 0.0)
    if not records:
        return NextTry(1)
    last = records[-1]
    rule = last.rule
    if rule.disposition is Disposition.STOP_RUN and not _forgiven(last, resumed_at):
        return Halts(last)
    if rule.disposition is Disposition.REVERIFY:
        return Invalid(
            last, f"{last.outcome.value}: artefacts are kept, this version cannot verify them again"
        )
    return _again(records, last, rule, limits, rounds)


def _again(
    records: Sequence[TryRecord], last: TryRecord, rule: Rule, limits: RetryLimits, rounds: int
) -> AttemptState:
    limit = rule.limit or Limit.INFRASTRUCTURE
    spent = Counter(record.rule.limit or Limit.INFRASTRUCTURE for record in records)[limit]
    allowed = int(getattr(limits, limit.value))
    # What ends as 0 has a score, and what has a score is left untouched.
    more = 0 if rule.exhausted is Exhausted.ZERO else (allowed + 1) * (rounds - 1)
    if spent <= allowed + more:
        delay = delay_seconds(rule, spent)
        return NextTry(last.try_number + 1, last.ended_at + timedelta(seconds=delay) if delay else None)
    if rule.exhausted is Exhausted.ZERO:
        return Scored(last, 0.0)
    return Invalid(
        last, f"{last.outcome.value} in {spent} tries; the limit for {limit.value} is {allowed} retries"
    )


def _forgiven(record: TryRecord, resumed_at: datetime | None) -> bool:
    return resumed_at is not None and record.ended_at <= resumed_at
