"""Why an attempt stands as it does: each try with its class, what that class means, and what followed."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from assay.api.evaluation_run import EvaluationRun
from assay.core.attempts import AttemptState, Halts, Invalid, NextTry, Scored, attempt_state
from assay.core.outcomes import Disposition, Rule
from assay.core.plan import RunPlan
from assay.core.record import AttemptKey, TryRecord
from assay.core.suspension import resumed_at
from assay.core.verification import oracle_passes

_FOLLOWS = {
    Disposition.REVERIFY: "its artefacts are judged again, the agent does not run again",
    Disposition.RERUN: "another try",
    Disposition.WAIT: "another try, later",
    Disposition.STOP_RUN: "the run stops until somebody has mended the cause",
}


@dataclass(frozen=True, slots=True)
class ExplainedTry:
    """One recorded try in words."""

    record: TryRecord
    fate: str
    """`retained`, or `replaced`: on record with its cost, and not the result."""
    meaning: str
    """What its outcome class means."""
    follows: str
    """What its class leads to, and the limit that it draws on."""


def tries_by_attempt(records: Iterable[TryRecord]) -> Mapping[AttemptKey, Sequence[TryRecord]]:
    """The recorded tries of each attempt, by their numbers; attempts in the order of their keys."""
    found: dict[AttemptKey, list[TryRecord]] = {}
    for record in sorted(records, key=lambda one: (one.key, one.try_number)):
        found.setdefault(record.key, []).append(record)
    return found


def state_of(
    run: EvaluationRun,
    plan: RunPlan,
    tries: Mapping[AttemptKey, Sequence[TryRecord]],
    key: AttemptKey,
    now: datetime,
) -> AttemptState:
    """State of a planned attempt, as the operator decides it from the recorded tries of the run."""
    return attempt_state(
        tries.get(key, ()),
        plan.limits[key.ledger],
        resumed_at(run, now),
        1 + run.spec.retry.unscored_only,
        partial(oracle_passes, plan, tries, key),
    )


def explain_tries(records: Sequence[TryRecord], state: AttemptState) -> list[ExplainedTry]:
    """Every recorded try of an attempt, in the order of their numbers."""
    retained = state.retained.try_number if isinstance(state, Scored) else None
    return [
        ExplainedTry(
            record=record,
            fate="retained" if record.try_number == retained else "replaced",
            meaning=record.rule.meaning,
            follows=_follows(record.rule),
        )
        for record in records
    ]


def explain_state(state: AttemptState, now: datetime) -> str:
    """What the attempt is, and what comes next."""
    match state:
        case Scored(retained, score):
            return f"scored {score:g}: try {retained.try_number} is the result"
        case Invalid(_, why):
            return f"invalid, it lowers coverage: {why}"
        case Halts(last):
            return f"stops the run: {last.outcome.value}: {last.reason}; {last.rule.fix}"
        case NextTry(number=1):
            return "waits for its first try"
        case NextTry(number, not_before, judged):
            what = f"try {number}"
            if judged is not None:
                what += f", which judges the artefacts of try {judged.try_number} again"
            late = not_before is not None and not_before > now
            return f"waits for {what}" + (f", not before {not_before:%H:%M:%S} UTC" if late else "")


def _follows(rule: Rule) -> str:
    if rule.retained:
        return "the attempt's result"
    words = _FOLLOWS[rule.disposition]
    return f"{words}; limit: {rule.limit.value}" if rule.limit else words
