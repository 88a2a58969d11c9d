"""What a run that has started is held against when it may make no more tries. Pure.

Its Ledger or variant was deleted and made anew, or another version of the operator has other rules. What the
status says of the start is then enough to say what its last tries came to.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import assay
from assay.api.evaluation_run import EvaluationRun, SuspendPolicy
from assay.api.evaluation_run_status import RunReason
from assay.core.actions import Action
from assay.core.classify import TryTerms
from assay.core.outcomes import TABLE_DIGEST
from assay.core.reconcile import LiveTry, Observed, Tries
from assay.core.record import AttemptKey, TryRecord
from assay.core.resolve import Problem


@dataclass(frozen=True, slots=True)
class PinnedRun:
    """A run as it was when it started; it contains the keys of all attempts that it can have."""

    run_uid: str
    pending_seconds: int
    ledgers: Mapping[str, str]
    """Digests by name."""
    variants: Mapping[str, str]
    """Fingerprints by name."""
    stop: bool = False
    """Whether a person wants the live tries ended."""

    @classmethod
    def of(cls, run: EvaluationRun) -> "PinnedRun | None":
        """None of a run that has not started: it has no tries."""
        resolved = run.status.resolved
        if resolved is None:
            return None
        return cls(
            run.metadata.uid,
            run.spec.deadlines.pending_seconds,
            {one.name: one.digest for one in resolved.ledgers},
            {one.name: one.fingerprint for one in resolved.variants},
            run.spec.suspend and run.spec.suspend_policy is SuspendPolicy.STOP,
        )

    def __contains__(self, key: object) -> bool:
        return isinstance(key, AttemptKey) and key.ledger in self.ledgers and key.variant in self.variants

    def terms(self, key: AttemptKey) -> TryTerms:
        """What a try of the attempt is held against."""
        return TryTerms(self.pending_seconds, self.ledgers[key.ledger], self.variants[key.variant])


@dataclass(frozen=True, slots=True)
class Settled:
    """What is left to do for the last tries of a run; the fields mean what they mean in a `Decision`."""

    actions: tuple[Action, ...]
    live: tuple[LiveTry, ...]
    unrecorded: tuple[TryRecord, ...]
    wake_at: datetime | None


def settle(run: PinnedRun, recorded: Mapping[str, TryRecord], observed: Observed, now: datetime) -> Settled:
    """Say what the tries that there are came to, and make none."""
    tries = Tries(run.run_uid, run.terms, run.stop, recorded, observed, run)
    tries.classify_all(now)
    return Settled(
        tuple(tries.actions), tuple(tries.live), tuple(tries.unrecorded), min(tries.wakes, default=None)
    )


def rules_problem(run: EvaluationRun) -> Problem | None:
    """Why a run that has started cannot go on: this operator draws other conclusions from an outcome."""
    resolved = run.status.resolved
    if resolved is None or resolved.outcome_table in (None, TABLE_DIGEST):
        return None
    before = resolved.operator_version or "of another version"
    return Problem(
        RunReason.OUTCOME_TABLE_CHANGED,
        f"the run began under operator {before} with outcome table {resolved.outcome_table}; operator "
        f"{assay.__version__} has {TABLE_DIGEST}, and rules do not change within a run: its live tries "
        "finish and stay on record. Install the version that it began with to go on, or make a new run",
    )
