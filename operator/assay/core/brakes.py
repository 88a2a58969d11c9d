"""Why a run makes no further try although attempts are outstanding. Live tries go on whatever the reason."""

from collections.abc import Set
from dataclasses import dataclass

from assay.api.evaluation_run import Budget
from assay.core.budget import Reached, attempts_reached, tokens_reached, usd_reached
from assay.core.circuit_breaker import FIRST_ATTEMPTS, all_alike
from assay.core.record import AttemptKey, TryRecord
from assay.core.standing import Outlook


@dataclass(frozen=True, slots=True)
class Brakes:
    """What stops new tries. Each is a person's to release."""

    halt: TryRecord | None = None
    """The try that stops the run."""
    alike: tuple[TryRecord, ...] = ()
    """The first tries, where they all failed for the same reason."""
    spent: Reached | None = None
    """The bound of the budget that is reached."""
    proving: bool = False
    """Whether too few attempts have ended to say that the run works at all: first tries then come first."""
    fresh: int | None = None
    """How many more attempts the budget lets begin; None = any number."""

    @property
    def on(self) -> bool:
        """Whether no further try may be made."""
        return self.halt is not None or bool(self.alike) or self.spent is not None


def brakes(outlook: Outlook, budget: Budget | None, busy: Set[AttemptKey]) -> Brakes:
    """The brakes from where every attempt stands, and the attempts with a live try."""
    plan = outlook.plan
    if outlook.ended == len(plan.attempts):
        return Brakes()
    may_begin = budget.attempts if budget and budget.attempts is not None else len(plan.attempts)
    large = min(may_begin, len(plan.attempts)) > FIRST_ATTEMPTS
    first = outlook.first if large else ()
    tasks = sum(len(ledger.tasks) for ledger in plan.ledgers.values())
    halts = (state.last for state in outlook.halts)
    spent, fresh = _budget(outlook, budget, busy)
    return Brakes(
        halt=min(halts, key=lambda record: record.ended_at, default=None),
        alike=first if large and all_alike(first, tasks) else (),
        spent=spent,
        proving=large and len(first) < FIRST_ATTEMPTS,
        fresh=fresh,
    )


def _budget(
    outlook: Outlook, budget: Budget | None, busy: Set[AttemptKey]
) -> tuple[Reached | None, int | None]:
    if budget is None:
        return None, None
    spent = usd_reached(budget, outlook.spent) or tokens_reached(budget, outlook.spent)
    if budget.attempts is None:
        return spent, None
    begun = outlook.tried + sum(key not in outlook.tries for key in busy)
    # What has begun is finished, further tries included; only then does the bound hold the run up.
    if spent is None and not busy and outlook.ended == begun:
        spent = attempts_reached(budget, len(outlook.plan.attempts), begun)
    return spent, max(0, budget.attempts - begun)
