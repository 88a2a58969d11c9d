"""Means over known values (BAR 7): what nobody measured is neither 0 nor part of the mean."""

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from fractions import Fraction

_EXACT = Context(prec=400)
"""Enough for any sum of doubles and prices to be exact."""


@dataclass(frozen=True, slots=True)
class KnownMean:
    """Exact mean and total of the known values, in their unit; None, with a reason, where none is known."""

    mean: Fraction | None
    total: Fraction | None
    n: int
    """How many values are known, of `planned`."""
    planned: int
    reason: str | None = None

    @property
    def coverage(self) -> Fraction:
        """Known values of planned ones."""
        return Fraction(self.n, self.planned) if self.planned else Fraction()

    @property
    def total_is_lower_bound(self) -> bool:
        """Whether `total` lacks values that are not known."""
        return self.n < self.planned


@dataclass(frozen=True, slots=True)
class KnownSum:
    """Exact sum of the values that are known, and their number."""

    whole: int = 0
    rest: Decimal = Decimal()
    n: int = 0

    def plus(self, value: Decimal | float | None) -> "KnownSum":
        """With one more value; None is unknown."""
        if value is None:
            return self
        if isinstance(value, int):
            return KnownSum(self.whole + value, self.rest, self.n + 1)
        return KnownSum(self.whole, _EXACT.add(self.rest, _decimal(value)), self.n + 1)

    @property
    def mean(self) -> Fraction | None:
        """Exact mean; None of nothing."""
        return (self.whole + Fraction(self.rest)) / self.n if self.n else None


def known_mean(values: Iterable[Decimal | float | None]) -> KnownMean:
    """Mean and total over the values that are not None; a float counts as the decimal that it prints as."""
    given = list(values)
    known = [value for value in given if value is not None]
    whole = sum(value for value in known if isinstance(value, int))
    with localcontext(_EXACT):
        rest = sum((_decimal(value) for value in known if not isinstance(value, int)), Decimal())
    return _mean(whole + Fraction(rest), len(known), len(given))


def pooled_mean(means: Iterable[KnownMean]) -> KnownMean:
    """The mean over all values that the means are of."""
    parts = list(means)
    total = sum((one.total for one in parts if one.total is not None), Fraction())
    return _mean(total, sum(one.n for one in parts), sum(one.planned for one in parts))


def _mean(total: Fraction, known: int, planned: int) -> KnownMean:
    if not known:
        return KnownMean(None, None, 0, planned, f"none of {planned} values is known")
    return KnownMean(total / known, total, known, planned)


def _decimal(value: Decimal | float) -> Decimal:
    return value if isinstance(value, Decimal) else Decimal(repr(value))
