"""What a run has spent of its budget. A bound that is reached stops new tries, never a live one (A34)."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import Decimal

from assay.api.evaluation_run import Budget
from assay.core.plan import RunPlan
from assay.core.record import TryRecord


@dataclass(frozen=True, slots=True)
class Reached:
    """A bound of `spec.budget` that is reached. `words` say how far, and what is not known."""

    field: str
    words: str


@dataclass(slots=True)
class Spent:
    """What finished tries used. What nobody measured is unknown, not 0: a sum is then a lower bound."""

    tokens: int = 0
    tokens_unknown: int = 0
    """Tries of a variant with a model whose tokens are not known."""
    usd: Decimal = Decimal()
    usd_unknown: int = 0

    def add(self, plan: RunPlan, record: TryRecord) -> None:
        """Count one more try."""
        tokens, metered = record.tokens, bool(plan.variants[record.key.variant].spec.models)
        self.tokens += (tokens.input or 0) + (tokens.output or 0)
        self.tokens_unknown += metered and None in (tokens.input, tokens.output)
        self.usd += record.cost_usd or 0
        self.usd_unknown += metered and record.cost_usd is None

    def with_tries(self, plan: RunPlan, tries: Iterable[TryRecord]) -> "Spent":
        """These and some more."""
        more = replace(self)
        for record in tries:
            more.add(plan, record)
        return more


def tokens_reached(budget: Budget | None, spent: Spent) -> Reached | None:
    """Whether the finished tries used up the bound on tokens."""
    if budget is None or budget.tokens is None or spent.tokens < budget.tokens:
        return None
    words = f"{spent.tokens} of {budget.tokens} tokens are spent{_unknown(spent.tokens_unknown)}"
    return Reached("tokens", words)


def usd_reached(budget: Budget | None, spent: Spent) -> Reached | None:
    """Whether the finished tries cost as much as may be spent."""
    if budget is None or budget.usd is None or spent.usd < Decimal(budget.usd):
        return None
    return Reached("usd", f"{spent.usd:.2f} of {budget.usd} USD are spent{_unknown(spent.usd_unknown)}")


def attempts_reached(budget: Budget | None, planned: int, begun: int) -> Reached | None:
    """Whether as many attempts have begun as may."""
    if budget is None or budget.attempts is None or begun < budget.attempts or begun >= planned:
        return None
    return Reached("attempts", f"{begun} of {planned} attempts have begun, {budget.attempts} may")


def _unknown(tries: int) -> str:
    return f", and {tries} tries of unknown usage come on top" if tries else ""
