"""pass@k and pass^k (method §4.2): would one of k attempts pass, would all of k."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import comb

from assay.core.figures.attempts import VariantAttempts
from assay.core.figures.scores import exact_sum


@dataclass(frozen=True, slots=True)
class PassK:
    """pass@k and pass^k as means over tasks, exact; None, with a reason, where a task has fewer than k valid
    attempts or a reward that is neither 0 nor 1.

    The plain figures draw from the valid attempts; the strict ones from all planned attempts, one without a
    valid result being a failure.
    """

    k: int
    pass_at: Fraction | None
    pass_hat: Fraction | None
    pass_at_strict: Fraction | None
    pass_hat_strict: Fraction | None
    tasks: int
    attempts_valid: int
    fewest_valid: int
    """Valid attempts of the task that has fewest: k cannot be larger."""
    reason: str | None = None


@lru_cache(maxsize=65536)
def pass_at(n: int, successes: int, k: int) -> Fraction | None:
    """Share of the draws of k out of n attempts that hold a success; None where n < k."""
    return None if n < k else 1 - Fraction(comb(n - successes, k), comb(n, k))


@lru_cache(maxsize=65536)
def pass_hat(n: int, successes: int, k: int) -> Fraction | None:
    """Share of the draws of k out of n attempts that are all successes; None where n < k."""
    return None if n < k else Fraction(comb(successes, k), comb(n, k))


def pass_k(attempts: VariantAttempts, k: int) -> PassK:
    """pass@k and pass^k of a variant on a ledger, k from 1."""
    valid = [one.valid for one in attempts.rewards.values()]
    fewest = min(map(len, valid))
    reason = None
    if fewest < k:
        short = sum(len(rewards) < k for rewards in valid)
        reason = f"{short} of {len(valid)} tasks have fewer than {k} valid attempts (fewest: {fewest})"
    elif any(reward not in (0, 1) for rewards in valid for reward in rewards):
        reason = "a reward is neither 0 nor 1: partial rewards do not pass or fail"
    tasks, total = len(valid), sum(map(len, valid))
    if reason is not None:
        return PassK(k, None, None, None, None, tasks, total, fewest, reason)
    own = Counter((len(rewards), round(sum(rewards))) for rewards in valid)
    planned: Counter[tuple[int, int]] = Counter()
    for (_, successes), count in own.items():
        planned[attempts.ledger.repetitions, successes] += count
    return PassK(k, *_both(own, k), *_both(planned, k), tasks, total, fewest)


def _both(tasks: Counter[tuple[int, int]], k: int) -> tuple[Fraction | None, Fraction | None]:
    """Means over tasks; `tasks` counts them by their attempts and successes."""
    return _mean(pass_at, tasks, k), _mean(pass_hat, tasks, k)


def _mean(
    figure: Callable[[int, int, int], Fraction | None], tasks: Counter[tuple[int, int]], k: int
) -> Fraction | None:
    known = [(value, count) for (n, won), count in tasks.items() if (value := figure(n, won, k)) is not None]
    tasks_known = sum(count for _, count in known)
    return exact_sum(count * value for value, count in known) / tasks_known if known else None
