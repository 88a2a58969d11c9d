"""Sampling error: how far a mean over these tasks may be from that over tasks like these (method §4.3, §7.1).

Tasks of one cluster are not independent evidence. The primary error is CR2 with Bell and McCaffrey's degrees
of freedom, never below the error of independent tasks; CR1 with G - 1 is the second line.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import repeat
from math import fsum, sqrt

from assay.core.figures.scores import TaskScores, exact_sum, mean
from assay.core.figures.student import t_quantile

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Interval:
    """A two-sided 95 % interval: centre ± t · standard error. Clip it to 0 to 1 for display only."""

    low: float
    high: float
    half_width: float
    standard_error: float
    degrees_of_freedom: float


@dataclass(frozen=True, slots=True)
class SamplingError:
    """Error of the mean of task scores, in the unit of the scores, for tasks that come in clusters.

    `interval` is the one to publish: max(iid, CR2) at Bell–McCaffrey degrees of freedom; `cr1_interval` is
    the second line: max(iid, CR1) at G - 1. Both are None, with a reason, where the data cannot tell.
    """

    mean: Fraction
    tasks: int
    clusters: int
    iid: float | None
    cr1: float | None
    cr2: float | None
    interval: Interval | None
    cr1_interval: Interval | None
    reason: str | None = None

    @property
    def standard_error(self) -> float | None:
        """The published standard error."""
        return self.interval.standard_error if self.interval else None

    @property
    def degrees_of_freedom(self) -> float | None:
        """The published degrees of freedom."""
        return self.interval.degrees_of_freedom if self.interval else None


def sampling_error(scores: TaskScores, clusters: Mapping[str, str]) -> SamplingError:
    """Error of the mean of `scores`; `clusters` maps task to cluster. Raises ValueError without a task."""
    centre = mean(scores.values())
    if centre is None:
        raise ValueError("scores is empty; the error of a mean needs at least one task")
    groups: dict[str, list[Fraction]] = defaultdict(list)
    for task, value in scores.items():
        groups[clusters[task]].append(value)
    n, sizes = len(scores), [len(values) for values in groups.values()]
    if len(groups) < 2:
        reason = f"all {n} tasks are one cluster: a single piece of evidence shows no spread"
        return SamplingError(centre, n, 1, None, None, None, None, None, reason)
    iid = sqrt(_sum_of_squares(scores.values(), centre) / (n - 1) / n)
    residuals = _cluster_residuals(groups.values(), centre)
    cr1 = sqrt(fsum(u * u for u in residuals) * len(sizes) / (len(sizes) - 1)) / n
    cr2 = sqrt(fsum(u * u / (1 - size / n) for u, size in zip(residuals, sizes, strict=True))) / n
    if iid == 0:
        reason = f"all {n} tasks have the same score: they show no spread to estimate an error from"
        return SamplingError(centre, n, len(groups), iid, cr1, cr2, None, None, reason)
    return SamplingError(
        mean=centre,
        tasks=n,
        clusters=len(groups),
        iid=iid,
        cr1=cr1,
        cr2=cr2,
        interval=interval(centre, max(iid, cr2), bell_mccaffrey_df(sizes)),
        cr1_interval=interval(centre, max(iid, cr1), len(groups) - 1),
    )


def bell_mccaffrey_df(sizes: Iterable[int]) -> float:
    """Degrees of freedom of CR2 for a mean, under independent tasks; `sizes` are the tasks of each cluster.

    Satterthwaite's df of a quadratic form, (tr M)² / tr M², in closed form for a mean: linear in clusters.
    """
    counts = list(sizes)
    n = sum(counts)
    off = [size * size / n / (1 - size / n) for size in counts]
    cross = fsum(off) ** 2 - fsum(a * a for a in off)
    return n * n / (fsum(size * size for size in counts) + cross)


def interval(centre: Fraction | float, standard_error: float, degrees_of_freedom: float) -> Interval:
    """The two-sided 95 % interval around a centre."""
    half = t_quantile((1 + CONFIDENCE) / 2, degrees_of_freedom) * standard_error
    middle = float(centre)
    return Interval(middle - half, middle + half, half, standard_error, degrees_of_freedom)


def _sum_of_squares(values: Iterable[Fraction], centre: Fraction) -> float:
    counts = Counter(value.as_integer_ratio() for value in values)
    return fsum(
        square
        for (top, bottom), count in counts.items()
        for square in repeat(float(Fraction(top, bottom) - centre) ** 2, count)
    )


def _cluster_residuals(groups: Iterable[list[Fraction]], centre: Fraction) -> list[float]:
    """u_g, the sum of a cluster's scores minus their number times the centre: exact until rounded once."""
    return [float(exact_sum(values) - len(values) * centre) for values in groups]
