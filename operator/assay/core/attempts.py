"""What becomes of an attempt after its recorded tries: a function of the records alone."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from assay.api.ledgerfile import RetryLimits
from assay.api.outcome import OutcomeClass
from assay.core.outcomes import Disposition, Exhausted, Limit, Rule, delay_seconds
from assay.core.record import TryRecord
from assay.core.verification import FAILED_VERDICTS, failed_for_good, judged_try, with_agents_part


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
    judged: TryRecord | None = None
    """The try whose artefacts it judges again, without an agent; None where an agent runs."""


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
    oracle_passes: Callable[[], bool] = lambda: False,
    *,
    rerun_after_output: bool = False,
) -> AttemptState:
    """State of an attempt from its recorded tries in the order of their numbers.

    The first try whose class is retained is the result. Else the last try's class decides, against the number
    of tries that drew on the same limit. A try that stopped the run before `resumed_at`, when a person let it
    go on, counts against the limit for infrastructure instead. `rounds` is how often the run was asked to try
    what has no score: each round has the limits anew.

    A verdict that failed is tried again on the same artefacts. Where every one failed and `oracle_passes`
    says that the verifier can pass, the attempt counts 0, flagged. `rerun_after_output` is the plan's word on
    a try that the provider limited after the model had produced output.
    """
    judged = judged_try(records)
    for record in records:
        if record.rule.retained:
            return Scored(_whole(record, judged), record.reward or 0.0)
    if not records:
        return NextTry(1)
    last = records[-1]
    rule = last.rule
    if rule.disposition is Disposition.STOP_RUN and not _forgiven(last, resumed_at):
        return Halts(last)
    if rule.disposition is Disposition.REVERIFY and judged is None:
        return Invalid(
            last,
            f"{last.outcome.value}: no artefacts are stored that could be judged again, and the agent does "
            "not run again for want of a verdict",
        )
    if rule.disposition is Disposition.REVERIFY and _failed_for_good(records, limits, oracle_passes):
        return Scored(_whole(failed_for_good(last), judged), 0.0)
    sampled = 0 if rerun_after_output else sum(map(_limited_after_output, records))
    if _limited_after_output(last) and sampled >= rounds:
        return Invalid(
            last,
            f"{last.outcome.value} after {last.tokens.output} output tokens: a further try would be a second "
            "sample, which the ledger's plan does not allow (rateLimitedAfterOutput)",
        )
    state = _again(records, last, rule, limits, rounds)
    return replace(state, judged=judged) if isinstance(state, NextTry) else state


def _failed_for_good(
    records: Sequence[TryRecord], limits: RetryLimits, oracle_passes: Callable[[], bool]
) -> bool:
    failed = sum(record.rule.disposition is Disposition.REVERIFY for record in records)
    return failed > limits.verification and failed >= FAILED_VERDICTS and oracle_passes()


def _whole(record: TryRecord, judged: TryRecord | None) -> TryRecord:
    """The result with the figures of the agent, where another try judged what it did."""
    again = judged is not None and record.try_number > judged.try_number
    return with_agents_part(record, judged) if judged is not None and again else record


def _again(
    records: Sequence[TryRecord], last: TryRecord, rule: Rule, limits: RetryLimits, rounds: int
) -> AttemptState:
    limit = rule.limit or Limit.INFRASTRUCTURE
    counted = (record.rule for record in records if record.rule.counted)
    spent = Counter(one.limit or Limit.INFRASTRUCTURE for one in counted)[limit]
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


def _limited_after_output(record: TryRecord) -> bool:
    return record.outcome is OutcomeClass.PROVIDER_RATE_LIMITED and (record.tokens.output or 0) > 0


def _forgiven(record: TryRecord, resumed_at: datetime | None) -> bool:
    return resumed_at is not None and record.ended_at <= resumed_at
