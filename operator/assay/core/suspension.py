"""The condition `Suspended`: what stopped a run, and whether a person has let it go on since."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from assay.api.conditions import find_condition, truncated
from assay.api.evaluation_run import EvaluationRun, SuspendPolicy
from assay.api.evaluation_run_status import RunCondition, RunReason
from assay.api.outcome import OutcomeClass
from assay.core.brakes import Brakes
from assay.core.record import TryRecord

RESUMED = "the run was resumed: what had stopped it is tried again"
GO_ON = "Then set spec.suspend to true and back to false to go on."

_HALT_REASONS = {
    OutcomeClass.ISOLATION_ABSENT: RunReason.ISOLATION_ABSENT,
    OutcomeClass.PROVIDER_AUTH: RunReason.PROVIDER_AUTH,
    OutcomeClass.PROVIDER_FUNDS: RunReason.PROVIDER_FUNDS,
    OutcomeClass.LEDGER_MISMATCH: RunReason.LEDGER_MISMATCH,
}


@dataclass(frozen=True, slots=True)
class Suspension:
    """What the condition should say."""

    status: bool
    reason: RunReason
    message: str = ""


def resumed_at(run: EvaluationRun, now: datetime) -> datetime | None:
    """When a person last let the suspended run go on: when `Suspended` last became False again.

    `now` where the spec has just been set back and the condition does not say so yet; None if nobody did.
    """
    suspended = find_condition(run.status.conditions, RunCondition.SUSPENDED)
    if suspended is None or run.spec.suspend:
        return None
    if suspended.status == "False":
        if suspended.message != RESUMED:
            return None
        # The API keeps whole seconds: what ended in that very second ended before.
        return suspended.last_transition_time + timedelta(seconds=1)
    return now if suspended.reason == RunReason.REQUESTED else None


def stands_still(run: EvaluationRun) -> bool:
    """Whether a fault stopped the run and no person has let it go on since.

    The tries that say so may not be readable yet after a restart: until a person acts, the condition stands.
    """
    suspended = find_condition(run.status.conditions, RunCondition.SUSPENDED)
    if suspended is None or suspended.status != "True" or run.spec.suspend:
        return False
    return suspended.reason not in (RunReason.REQUESTED, RunReason.BUDGET_EXHAUSTED)


def suspension(run: EvaluationRun, brakes: Brakes | None, *, ended: bool) -> Suspension | None:
    """What `Suspended` should say; None = what it says now. `brakes` are None where nothing was decided."""
    before = find_condition(run.status.conditions, RunCondition.SUSPENDED)
    if run.spec.suspend:
        stops = run.spec.suspend_policy is SuspendPolicy.STOP
        words = f"spec.suspend is true; live tries {'are ended' if stops else 'finish'}"
        return Suspension(True, RunReason.REQUESTED, words)
    if brakes is not None and brakes.on and not ended:
        return _braked(brakes)
    if (brakes is None and before is not None) or (stands_still(run) and not ended):
        return None
    resumed = before is not None and (before.status == "True" or before.message == RESUMED)
    return Suspension(False, RunReason.NOT_SUSPENDED, RESUMED if resumed and not ended else "")


def _braked(brakes: Brakes) -> Suspension:
    if brakes.halt is not None:
        record = brakes.halt
        words = f"Job {record.job_name}: {truncated(record.reason or record.rule.meaning, 600)}"
        return Suspension(True, _halt_reason(record), f"{words}. {_fix(record)}. {GO_ON}")
    if brakes.alike:
        return Suspension(True, RunReason.CIRCUIT_OPEN, _alike_words(brakes.alike))
    assert brakes.spent is not None
    words = f"spec.budget.{brakes.spent.field}: {brakes.spent.words}; live tries finish. Raise it to go on."
    return Suspension(True, RunReason.BUDGET_EXHAUSTED, words)


def _alike_words(first: Sequence[TryRecord]) -> str:
    example = first[-1]
    words = truncated(example.reason or example.rule.meaning, 200)
    return (
        f"the first {len(first)} attempts all ended as {example.outcome.value}, e.g. Job {example.job_name}: "
        f"{words}. {_fix(example)}. {GO_ON}"
    )


def _fix(record: TryRecord) -> str:
    return record.rule.fix[:1].upper() + record.rule.fix[1:]


def _halt_reason(record: TryRecord) -> RunReason:
    # The gateway answers 424 for a Secret that it cannot use, and for nothing else.
    if record.outcome is OutcomeClass.PROVIDER_AUTH and (
        "SecretMissing" in record.reason or "424" in record.reason
    ):
        return RunReason.SECRET_MISSING
    return _HALT_REASONS[record.outcome]
