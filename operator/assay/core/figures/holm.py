"""Holm's step-down adjustment of a family of p-values (method §4.7, §7.5)."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AdjustedP:
    """One p-value, adjusted for a family of `family` tests; None, with a reason, without a p-value."""

    p_value: float | None
    adjusted: float | None
    family: int
    reason: str | None = None


def holm(p_values: Mapping[str, float | None]) -> dict[str, AdjustedP]:
    """Adjust a family by name. A test without a p-value still counts in the family: the plan named it."""
    family = len(p_values)
    known = sorted((value, name) for name, value in p_values.items() if value is not None)
    adjusted = {
        name: AdjustedP(None, None, family, "the test gave no p-value")
        for name, value in p_values.items()
        if value is None
    }
    largest = 0.0
    for rank, (value, name) in enumerate(known):
        largest = max(largest, min(1.0, (family - rank) * value))
        adjusted[name] = AdjustedP(value, largest, family)
    return {name: adjusted[name] for name in p_values}
