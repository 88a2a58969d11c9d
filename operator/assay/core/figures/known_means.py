"""Means over known values (BAR 7): what nobody measured is neither 0 nor part of the mean."""

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction

_DIGITS = 400
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


def known_mean(values: Iterable[Decimal | float | None]) -> KnownMean:
    """Mean and total over the values that are not None; a float counts as the decimal that it prints as."""
    whole, decimals, known, planned = 0, Decimal(), 0, 0
    with localcontext(prec=_DIGITS):
        for value in values:
            planned += 1
            if value is None:
                continue
            known += 1
            if isinstance(value, int):
                whole += value
            else:
                decimals += value if isinstance(value, Decimal) else Decimal(repr(value))
    if not known:
        return KnownMean(None, None, 0, planned, f"none of {planned} values is known")
    total = whole + Fraction(decimals)
    return KnownMean(total / known, total, known, planned)
