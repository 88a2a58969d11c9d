"""Rates of what happened to attempts, by the Coding Agent Index's method (method §1)."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from assay.core.figures.attempts import VariantAttempts
from assay.core.figures.observations import HackingVerdict, Refusal


@dataclass(frozen=True, slots=True)
class Rate:
    """`count` of `n` retained attempts; `value` is None, with a reason, where the share is not known."""

    count: int
    n: int
    reason: str | None = None

    @property
    def value(self) -> Fraction | None:
        """The share, exact, from 0 to 1."""
        return None if self.reason else Fraction(self.count, self.n)


@dataclass(frozen=True, slots=True)
class AttemptRates:
    """Rates of one variant on one ledger. `refusal` counts attempts with either kind of refusal."""

    refusal: Rate
    fallback: Rate
    blocked: Rate
    reward_hacking: Rate


@dataclass(frozen=True, slots=True)
class SuiteRate:
    """Equal-weight mean of the components' rates; None, with a reason, unless every component has one."""

    value: Fraction | None
    components: int
    attempts: int
    reason: str | None = None


def attempt_rates(attempts: VariantAttempts) -> AttemptRates:
    """Rates over the retained attempts of a variant on a ledger."""
    retained = attempts.retained
    fallback = sum(one.refusal is Refusal.FALLBACK for one in retained)
    blocked = sum(one.refusal is Refusal.BLOCKED for one in retained)
    flagged = sum(one.hacking is HackingVerdict.FLAGGED for one in retained)
    unread = sum(bool(one.reward) and one.hacking is HackingVerdict.NOT_READ for one in retained)
    n = len(retained)
    empty = None if retained else "no attempt has a valid result"
    not_read = f"{unread} passing attempts were not read by a judge" if unread else None
    return AttemptRates(
        refusal=Rate(fallback + blocked, n, empty),
        fallback=Rate(fallback, n, empty),
        blocked=Rate(blocked, n, empty),
        reward_hacking=Rate(flagged, n, empty or not_read),
    )


def suite_rate(components: Mapping[str, Rate]) -> SuiteRate:
    """The suite's rate from its components' rates, by component name. Raises ValueError for no component.

    Of the blocked rate this is the most, in index points, that refusals can have cost.
    """
    if not components:
        raise ValueError("a suite has at least one component")
    attempts = sum(rate.n for rate in components.values())
    unknown = sorted(f"{name}: {rate.reason}" for name, rate in components.items() if rate.reason)
    if unknown:
        return SuiteRate(None, len(components), attempts, "; ".join(unknown))
    total = sum((Fraction(rate.count, rate.n) for rate in components.values()), Fraction())
    return SuiteRate(total / len(components), len(components), attempts)
