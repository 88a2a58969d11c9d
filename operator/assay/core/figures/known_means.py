"""Means over known values (BAR 7): what nobody measured is neither 0 nor part of the mean."""

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction


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
    known: list[Fraction] = []
    planned = 0
    for value in values:
        planned += 1
        if value is not None:
            known.append(Fraction(repr(value)) if isinstance(value, float) else Fraction(value))
    if not known:
        return KnownMean(None, None, 0, planned, f"none of {planned} values is known")
    total = sum(known, Fraction())
    return KnownMean(total / len(known), total, len(known), planned)
