"""Repeat noise: how far the score on this very ledger would move if all of it ran again (method §4.3)."""

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from math import sqrt

from assay.core.figures.attempts import VariantAttempts, exact, exact_mean


@dataclass(frozen=True, slots=True)
class RepeatNoise:
    """Standard error of the strict score over repetitions of the same tasks; says nothing of other tasks."""

    standard_error: float | None
    tasks: int
    repetitions: int
    reason: str | None = None


def repeat_noise(attempts: VariantAttempts) -> RepeatNoise:
    """√V_run with V_run = (1/n²) Σ s(1-s)/(k-1), for partial rewards their variance; needs 2 repetitions."""
    tasks, repetitions = len(attempts.by_task), attempts.ledger.repetitions
    if repetitions < 2:
        return RepeatNoise(None, tasks, repetitions, "one repetition of each task shows no repeat noise")
    if not attempts.retained:
        return RepeatNoise(None, tasks, repetitions, "no attempt has a valid result")
    counts = Counter(attempts.strict_rewards(task) for task in attempts.by_task)
    return RepeatNoise(sqrt(run_variance(counts, tasks)), tasks, repetitions)


def run_variance(rewards: Counter[tuple[float, ...]], tasks: int) -> Fraction:
    """Variance of the mean over `tasks` tasks; `rewards` counts tasks by their two or more rewards."""
    total = sum((count * _variance_of_mean(found) for found, count in rewards.items()), Fraction())
    return total / tasks**2


def _variance_of_mean(rewards: tuple[float, ...]) -> Fraction:
    k, centre = len(rewards), exact_mean(rewards)
    return sum(((exact(reward) - centre) ** 2 for reward in rewards), Fraction()) / (k * (k - 1))
