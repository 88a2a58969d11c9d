"""The index of a suite: the equal-weight mean of its components' strict scores (method §1, §4.6, §7.5)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import fsum, hypot

from assay.core.figures.clustered import Interval, SamplingError, interval
from assay.core.figures.paired import PairedShift, effect_detectable_at
from assay.core.figures.repeat_noise import RepeatNoise
from assay.core.figures.scores import Score
from assay.core.figures.signflip import SignFlipTest, sign_flip_test


@dataclass(frozen=True, slots=True)
class ComponentPlan:
    """What a suite asks of one component."""

    tasks: int
    repetitions: int


@dataclass(frozen=True, slots=True)
class ComponentResult:
    """A variant's figures on one component's ledger."""

    score: Score
    error: SamplingError
    noise: RepeatNoise


@dataclass(frozen=True, slots=True)
class Index:
    """The index, from 0 to 1; None, with a reason, unless every component is complete.

    `interval` has the error √(Σ SE²)/B at Satterthwaite's degrees of freedom; None, with `error_reason`,
    where a component has none. `repeat_noise` is the standard error over repetitions of these very tasks.
    """

    value: Fraction | None
    components: int
    tasks: int
    attempts: int
    interval: Interval | None
    repeat_noise: float | None
    reason: str | None = None
    error_reason: str | None = None


@dataclass(frozen=True, slots=True)
class IndexShift:
    """The candidate's index minus the baseline's; None, with a reason, unless both have an index."""

    shift: Fraction | None
    components: int
    interval: Interval | None
    repeat_noise: float | None
    sign_flip: SignFlipTest | None
    """Stratified: the signs of all components' clusters are tossed together."""
    minimum_detectable_effect: float | None
    reason: str | None = None
    error_reason: str | None = None


def index(suite: Mapping[str, ComponentPlan], results: Mapping[str, ComponentResult]) -> Index:
    """The index of a variant; both mappings are by component name. Raises ValueError for an empty suite."""
    if not suite:
        raise ValueError("a suite has at least one component")
    known = [results[name].score for name in suite if name in results]
    counts = len(suite), sum(one.tasks for one in known), sum(one.attempts_valid for one in known)
    scores = {name: results[name].score.strict for name in suite if name in results}
    gaps = _gaps(suite, results)
    if gaps is not None:
        return Index(None, *counts, None, None, gaps, gaps)
    value = sum((score for score in scores.values() if score is not None), Fraction()) / len(suite)
    spread, error_reason = _combined(value, {name: results[name].error for name in suite})
    noise = _combined_noise([results[name].noise for name in suite])
    return Index(value, *counts, spread, noise, None, error_reason)


def index_shift(candidate: Index, baseline: Index, shifts: Mapping[str, PairedShift]) -> IndexShift:
    """Compare two indices of one suite; `shifts` has the paired shift of every component, by name.

    Raises ValueError where both indices exist and `shifts` lacks a component.
    """
    if candidate.value is None or baseline.value is None:
        reason = (
            f"candidate: {candidate.reason}" if candidate.value is None else f"baseline: {baseline.reason}"
        )
        return IndexShift(None, candidate.components, None, None, None, None, reason, reason)
    if len(shifts) != candidate.components:
        raise ValueError(f"shifts has {len(shifts)} of {candidate.components} components; give every one")
    shift = candidate.value - baseline.value
    spread, error_reason = _combined(shift, {name: one.error for name, one in shifts.items()})
    return IndexShift(
        shift=shift,
        components=len(shifts),
        interval=spread,
        repeat_noise=_combined_noise([one.repeat_noise for one in shifts.values()]),
        sign_flip=sign_flip_test([one.stratum for one in shifts.values()]),
        minimum_detectable_effect=None if spread is None else effect_detectable_at(spread),
        error_reason=error_reason,
    )


def _gaps(suite: Mapping[str, ComponentPlan], results: Mapping[str, ComponentResult]) -> str | None:
    gaps = []
    for name, plan in suite.items():
        found = results.get(name)
        if found is None:
            gaps.append(f"{name}: no result")
        elif (found.score.tasks, found.score.attempts_planned) != (plan.tasks, plan.tasks * plan.repetitions):
            gaps.append(
                f"{name}: {found.score.tasks} tasks and {found.score.attempts_planned} attempts, "
                f"the suite has {plan.tasks} and {plan.tasks * plan.repetitions}"
            )
        elif found.score.coverage < 1:
            missing = found.score.attempts_planned - found.score.attempts_valid
            gaps.append(f"{name}: {missing} of {found.score.attempts_planned} attempts have no valid result")
    return "; ".join(gaps) or None


def _combined(
    centre: Fraction, errors: Mapping[str, SamplingError]
) -> tuple[Interval, None] | tuple[None, str]:
    """Error of the mean of independent components, at Satterthwaite's degrees of freedom."""
    known = [one.interval for one in errors.values() if one.interval is not None]
    if len(known) < len(errors):
        return None, "; ".join(
            f"{name}: {one.reason}" for name, one in errors.items() if one.interval is None
        )
    variances = [one.standard_error**2 for one in known]
    total = fsum(variances)
    spread = fsum(
        variance**2 / one.degrees_of_freedom for variance, one in zip(variances, known, strict=True)
    )
    return interval(centre, total**0.5 / len(known), total**2 / spread), None


def _combined_noise(noises: Sequence[RepeatNoise]) -> float | None:
    known = [one.standard_error for one in noises if one.standard_error is not None]
    return hypot(*known) / len(known) if len(known) == len(noises) else None
