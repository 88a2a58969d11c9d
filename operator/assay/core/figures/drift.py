"""Drift of the baseline between two days on one frozen ledger (method §4.5, §7.3).

If nothing changed, each task's successes of both days were dealt to the days by chance: day 2's number is
hypergeometric given the total, and partial rewards are dealt alike. Two exact tests on that distribution: the
sum of differences (a shift of all) and the sum of their squares (changes that cancel in the sum).
"""

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import chain
from math import comb, fsum, hypot, lcm, sqrt
from statistics import NormalDist

from assay.core.figures.attempts import VariantAttempts, exact, exact_mean
from assay.core.figures.convolution import (
    Distribution,
    Term,
    TooManySumsError,
    critical_value,
    distribution_of_sum,
    tail_probability,
)
from assay.core.figures.observations import FiguresError
from assay.core.figures.power import POWER
from assay.core.figures.repeat_noise import run_variance

type Days = list[tuple[tuple[float, ...], tuple[float, ...]]]
"""Of each task the valid rewards of day 1 and of day 2."""

MAX_DEALS = 100_000
"""Most (number dealt, sum) states of one task with partial rewards."""


@dataclass(frozen=True, slots=True)
class DetectableDrift:
    """Smallest uniform change of the score, up or down, that the sum test finds with 80 % power at `level`.

    The critical value is exact; the power takes the sum as normal, with the same distribution's run noise.
    None, with a reason, where no change could be found or the noise is not known.
    """

    size: float | None
    level: float
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Drift:
    """Day 2 minus day 1 of one variant on one ledger, over tasks with a valid attempt on both days."""

    shift: Fraction | None
    repeat_noise: float | None
    """Standard error of `shift` on this ledger; None with one attempt of a task a day."""
    p_shift: float | None
    """Exact p of the sum of differences, two-sided."""
    p_any: float | None
    """Exact p of the sum of squared differences."""
    detectable: DetectableDrift
    """What the test of the sum would have found: without it "no drift found" says little."""
    tasks: int
    tasks_left_out: int
    attempts: tuple[int, int]
    """Valid attempts of day 1 and day 2 that were compared."""
    reason: str | None = None


def drift(day1: VariantAttempts, day2: VariantAttempts, threshold: float, family: int = 2) -> Drift:
    """Compare the valid attempts of two days. Raises FiguresError unless both are on the same tasks.

    `threshold` is the plan's; `family` is the number of tests that share it (two for each ledger and day): a
    lone drift is found where p is below threshold / family, and that level gives the power.
    """
    if day1.ledger.tasks != day2.ledger.tasks:
        raise FiguresError(
            f"day 1 is on ledger {day1.ledger.ledger}, day 2 on {day2.ledger.ledger} or with other tasks; "
            "drift is defined on one frozen ledger"
        )
    days = [(day1.valid_rewards(task), day2.valid_rewards(task)) for task in day1.by_task]
    both = [(first, second) for first, second in days if first and second]
    attempts = sum(len(first) for first, _ in both), sum(len(second) for _, second in both)
    level = threshold / family
    p_shift = p_any = shift = None
    reason = None if both else "no task has a valid attempt on both days"
    detectable = DetectableDrift(None, level, reason)
    if both:
        shift = sum((exact_mean(second) - exact_mean(first) for first, second in both), Fraction()) / len(
            both
        )
        try:
            p_shift, p_any, detectable = _exact_tests(both, level)
        except TooManySumsError as error:
            reason = str(error)
            detectable = DetectableDrift(None, level, reason)
    return Drift(
        shift=shift,
        repeat_noise=_repeat_noise(both) if both else None,
        p_shift=p_shift,
        p_any=p_any,
        detectable=detectable,
        tasks=len(both),
        tasks_left_out=len(days) - len(both),
        attempts=attempts,
        reason=reason,
    )


def _exact_tests(both: Days, level: float) -> tuple[float, float, DetectableDrift]:
    rewards = list(chain.from_iterable(both))
    unit = lcm(*map(len, rewards)) * lcm(
        *(exact(reward).denominator for reward in set(chain.from_iterable(rewards)))
    )
    observed = [int((exact_mean(second) - exact_mean(first)) * unit) for first, second in both]
    terms: Counter[Term] = Counter()
    for first, second in both:
        terms[_deal(tuple(sorted(first + second)), len(first), len(second), unit)] += 1
    total, squares = abs(sum(observed)), sum(difference * difference for difference in observed)
    sums = distribution_of_sum(terms)
    p_shift = 1.0
    if total:
        p_shift = tail_probability([sums], total) + tail_probability([sums.negated()], total)
    squared: Counter[Term] = Counter()
    for term, count in terms.items():
        squared[_squared(term)] += count
    p_any = tail_probability([distribution_of_sum(squared)], squares)
    return min(1.0, p_shift), p_any, _detectable(terms, sums, unit * len(both), level)


def _detectable(terms: Counter[Term], sums: Distribution, unit: int, level: float) -> DetectableDrift:
    noise = sqrt(fsum(count * _variance(term) for term, count in terms.items()))
    if noise == 0:
        return DetectableDrift(None, level, "no task's attempts differed: the run noise is not known")
    critical = critical_value(sums, level)
    if critical is None:
        return DetectableDrift(None, level, f"no difference of these attempts would have p below {level:.2g}")
    return DetectableDrift((critical + NormalDist().inv_cdf(POWER) * noise) / unit, level)


def _variance(term: Term) -> float:
    total = sum(weight for _, weight in term)
    centre = Fraction(sum(value * weight for value, weight in term), total)
    return float(sum(weight * (value - centre) ** 2 for value, weight in term) / total)


@lru_cache(maxsize=4096)
def _deal(pooled: tuple[float, ...], first: int, second: int, unit: int) -> Term:
    """Mean of day 2 minus mean of day 1, in units, over all ways to deal the pooled rewards to the days."""
    values = [exact(reward) for reward in pooled]
    weights = _hypergeometric(pooled, first) if set(pooled) <= {0, 1} else _subset_sums(values, first)
    total = sum(values, Fraction())
    deals: Counter[int] = Counter()
    for dealt, weight in weights.items():
        deals[int(((total - dealt) / second - dealt / first) * unit)] += weight
    return tuple(sorted(deals.items()))


def _hypergeometric(pooled: tuple[float, ...], first: int) -> dict[Fraction, int]:
    successes = round(sum(pooled))
    low, high = max(0, first - (len(pooled) - successes)), min(first, successes)
    return {
        Fraction(hits): comb(successes, hits) * comb(len(pooled) - successes, first - hits)
        for hits in range(low, high + 1)
    }


def _subset_sums(values: list[Fraction], size: int) -> dict[Fraction, int]:
    """How many of the subsets of `size` values have each sum."""
    counts: list[Counter[Fraction]] = [Counter({Fraction(): 1})] + [Counter() for _ in range(size)]
    for value in values:
        for taken in range(size, 0, -1):
            for total, count in counts[taken - 1].items():
                counts[taken][total + value] += count
        if (states := sum(map(len, counts))) > MAX_DEALS:
            raise TooManySumsError(states)
    return counts[size]


def _squared(term: Term) -> Term:
    squares: Counter[int] = Counter()
    for value, weight in term:
        squares[value * value] += weight
    return tuple(sorted(squares.items()))


def _repeat_noise(both: Days) -> float | None:
    if any(len(rewards) < 2 for rewards in chain.from_iterable(both)):
        return None
    first, second = Counter(first for first, _ in both), Counter(second for _, second in both)
    return hypot(sqrt(run_variance(first, len(both))), sqrt(run_variance(second, len(both))))
