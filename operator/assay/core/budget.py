"""What a run has spent of its budget. A bound that is reached stops new tries, never a live one (A34)."""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from decimal import Decimal

from assay.api.evaluation_run import Budget
from assay.core.plan import RunPlan
from assay.core.record import AttemptKey, TryRecord


@dataclass(frozen=True, slots=True)
class Reached:
    """A bound of `spec.budget` that is reached. `words` say how far, and what is not known."""

    field: str
    words: str


def begun(records: Mapping[AttemptKey, Sequence[TryRecord]], busy: Set[AttemptKey]) -> frozenset[AttemptKey]:
    """Attempts of which a try was ever made, as far as records and live tries tell."""
    return frozenset(key for key, found in records.items() if found) | busy


def tokens_reached(budget: Budget | None, plan: RunPlan, tries: Iterable[TryRecord]) -> Reached | None:
    """Whether the finished tries used up the bound on tokens.

    A try whose usage nobody measured counts as unknown, not as 0: the sum is then a lower bound and says so.
    """
    if budget is None or budget.tokens is None:
        return None
    known, unknown = 0, 0
    for record in tries:
        tokens = record.tokens
        known += (tokens.input or 0) + (tokens.output or 0)
        if (tokens.input is None or tokens.output is None) and plan.variants[record.key.variant].spec.models:
            unknown += 1
    if known < budget.tokens:
        return None
    return Reached("tokens", f"{known} of {budget.tokens} tokens are spent{_unknown(unknown)}")


def usd_reached(budget: Budget | None, plan: RunPlan, tries: Iterable[TryRecord]) -> Reached | None:
    """Whether the finished tries cost as much as may be spent; an unknown cost is said and is not 0."""
    if budget is None or budget.usd is None:
        return None
    known, unknown = Decimal(), 0
    for record in tries:
        if record.cost_usd is not None:
            known += record.cost_usd
        elif plan.variants[record.key.variant].spec.models:
            unknown += 1
    if known < Decimal(budget.usd):
        return None
    return Reached("usd", f"{known:.2f} of {budget.usd} USD are spent{_unknown(unknown)}")


def attempts_reached(budget: Budget | None, planned: int, begun: int) -> Reached | None:
    """Whether as many attempts have begun as may."""
    if budget is None or budget.attempts is None or begun < budget.attempts or begun >= planned:
        return None
    return Reached("attempts", f"{begun} of {planned} attempts have begun, {budget.attempts} may")


def _unknown(tries: int) -> str:
    return f", and {tries} tries of unknown usage come on top" if tries else ""
