"""Fewer tries at once for a model whose provider limits the rate; from recorded tries and the time alone.

Each burst of rate-limited tries halves the model's slots, and time gives them back one by one: the way in
which TCP shares a line. The bounds are 1 and the run's parallelism, so a run never stops altogether.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from assay.api.outcome import OutcomeClass
from assay.core.plan import RunPlan
from assay.core.record import TryRecord

BURST_SECONDS = 60
"""Tries that are limited within this time of a cut met the same limit: they cut no further."""
RECOVERY_STEPS = 20
STEP_SECONDS = 60
"""A twentieth of the run's parallelism, at least one slot, comes back each minute."""


def slots(parallelism: int, limited_at: Sequence[datetime], now: datetime) -> tuple[int, datetime | None]:
    """How many tries of a model may be live, and when there will be more; None where it has all.

    `limited_at` are the ends of its rate-limited tries in order.
    """
    found, since = parallelism, None
    for moment in limited_at:
        if since is not None and moment < since + timedelta(seconds=BURST_SECONDS):
            continue
        found = max(1, _recovered(found, parallelism, since, moment) // 2)
        since = moment
    if since is None:
        return found, None
    current = _recovered(found, parallelism, since, now)
    if current >= parallelism:
        return parallelism, None
    passed = max(0, int((now - since).total_seconds()) // STEP_SECONDS)
    return current, since + timedelta(seconds=(passed + 1) * STEP_SECONDS)


def _recovered(found: int, parallelism: int, since: datetime | None, now: datetime) -> int:
    if since is None:
        return parallelism
    steps = max(0, int((now - since).total_seconds()) // STEP_SECONDS)
    return min(parallelism, found + steps * max(1, parallelism // RECOVERY_STEPS))


@dataclass(slots=True)
class ModelSlots:
    """The free slots of each model while tries are handed out in one pass."""

    plan: RunPlan
    free: dict[str, int] = field(default_factory=dict)
    """Models that have fewer slots than the run, by endpoint and name."""
    more_at: datetime | None = None

    @classmethod
    def of(
        cls,
        plan: RunPlan,
        parallelism: int,
        tries: Iterable[TryRecord],
        live_variants: Iterable[str],
        now: datetime,
    ) -> "ModelSlots":
        """From every recorded try, and the variant of each live one."""
        made = cls(plan)
        limited: dict[str, list[datetime]] = defaultdict(list)
        for record in tries:
            if record.outcome is OutcomeClass.PROVIDER_RATE_LIMITED:
                for model in made._models(record.key.variant):
                    limited[model].append(record.ended_at)
        if not limited:
            return made
        live = Counter(model for variant in live_variants for model in made._models(variant))
        for model, moments in limited.items():
            allowed, more_at = slots(parallelism, sorted(moments), now)
            if more_at is not None:
                made.free[model] = allowed - live[model]
                made.more_at = min(made.more_at or more_at, more_at)
        return made

    def take(self, variant: str) -> bool:
        """Take a slot of each of the variant's models, if all have one."""
        models = [one for one in self._models(variant) if one in self.free] if self.free else []
        if any(self.free[one] <= 0 for one in models):
            return False
        for one in models:
            self.free[one] -= 1
        return True

    def _models(self, variant: str) -> set[str]:
        return {f"{one.provider.endpoint} {one.name}" for one in self.plan.variants[variant].spec.models}
