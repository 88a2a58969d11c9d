"""Whether the baseline's drift stops the ranking (method §4.5, §7.3)."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from assay.core.figures.drift import Drift
from assay.core.figures.holm import AdjustedP, holm


@dataclass(frozen=True, slots=True)
class DriftGate:
    """Whether ranking may go on: both tests of every ledger and day, Holm-adjusted as one family."""

    ranking_stops: bool
    threshold: float
    shift: Mapping[str, AdjustedP]
    any_change: Mapping[str, AdjustedP]
    drifted: tuple[str, ...]
    """Drifts that were found, in words."""
    reasons: tuple[str, ...]
    """All that stops the ranking: drifts first, then what could not be tested."""


def drift_gate(
    drifts: Mapping[str, Drift],
    threshold: float,
    untested: Mapping[str, str] = MappingProxyType({}),
    first: Collection[str] = (),
) -> DriftGate:
    """Stop ranking where an adjusted p is below the plan's threshold, or a drift could not be tested.

    `drifts` are keyed by ledger, or ledger and day: they are one family. Of `untested` ledgers
    the reference could not be used; the values say why. On the `first` ones this run is the reference itself,
    which stops nothing. No drift and no first run is no evidence of stability, so ranking stops then too.
    """
    family = {f"{name}\tshift": one.p_shift for name, one in drifts.items()}
    family |= {f"{name}\tany": one.p_any for name, one in drifts.items()}
    adjusted = holm(family)
    shift = {name: adjusted[f"{name}\tshift"] for name in drifts}
    any_change = {name: adjusted[f"{name}\tany"] for name in drifts}
    reasons = [
        f"{name}: the baseline was not compared with the reference run: {why}"
        for name, why in untested.items()
    ]
    if not (drifts or first or untested):
        reasons.append("the baseline was not compared with an earlier run")
    drifted = []
    for name, one in drifts.items():
        if one.reason is not None:
            reasons.append(f"{name}: drift could not be tested: {one.reason}")
        for what, found in (("its score moved", shift[name]), ("its tasks changed", any_change[name])):
            if found.adjusted is not None and found.adjusted < threshold:
                drifted.append(f"{name}: the baseline drifted, {what} (adjusted p {found.adjusted:.2g})")
    every = (*drifted, *reasons)
    return DriftGate(bool(every), threshold, shift, any_change, tuple(drifted), every)
