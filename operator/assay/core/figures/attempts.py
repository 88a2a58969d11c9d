"""The observations of one variant on one ledger, complete against the plan and free of duplicates."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import NamedTuple

from assay.core.figures.observations import FiguresError, LedgerTasks, Observation


class TaskRewards(NamedTuple):
    """Rewards of one task's attempts: valid ones, all planned (0 without a result), valid first tries."""

    valid: tuple[float, ...]
    strict: tuple[float, ...]
    first_try: tuple[float, ...]


@dataclass(frozen=True)
class VariantAttempts:
    """All observations of one variant; `by_task` names every task of the ledger, in the ledger's order.

    Each task's observations are in order of repetition; planned attempts without one are simply absent.
    """

    ledger: LedgerTasks
    variant: str
    by_task: Mapping[str, tuple[Observation, ...]]

    @property
    def planned(self) -> int:
        """Number of planned attempts."""
        return len(self.ledger.tasks) * self.ledger.repetitions

    @property
    def retained(self) -> list[Observation]:
        """The observations that have a result."""
        return [
            one for observations in self.by_task.values() for one in observations if one.reward is not None
        ]

    @cached_property
    def rewards(self) -> Mapping[str, TaskRewards]:
        """The rewards of every task."""
        return {task: self._rewards_of(found) for task, found in self.by_task.items()}

    def _rewards_of(self, found: tuple[Observation, ...]) -> TaskRewards:
        missing = (0.0,) * (self.ledger.repetitions - len(found))
        return TaskRewards(
            valid=tuple([one.reward for one in found if one.reward is not None]),
            strict=tuple([one.reward or 0.0 for one in found]) + missing,
            first_try=tuple([one.first_try_reward for one in found if one.first_try_reward is not None]),
        )

    def strict_rewards(self, task: str) -> tuple[float, ...]:
        """Rewards of all planned attempts of a task, 0 where there is no valid result."""
        return self.rewards[task].strict

    def valid_rewards(self, task: str) -> tuple[float, ...]:
        """Rewards of the attempts of a task that have one."""
        return self.rewards[task].valid


def collect(
    ledger: LedgerTasks, observations: Iterable[Observation], variants: Iterable[str] = ()
) -> dict[str, VariantAttempts]:
    """Sort a stream of observations by variant; variants named in `variants` appear even without any.

    An observation that comes twice counts once. Raises FiguresError for a task that the ledger lacks, for a
    repetition that is not planned, and for two observations of one attempt that differ.
    """
    tasks = {facts.task for facts in ledger.tasks}
    found: dict[str, dict[str, dict[int, Observation]]] = {name: defaultdict(dict) for name in variants}
    for one in observations:
        if one.task not in tasks:
            raise FiguresError(
                f"task {one.task} of variant {one.variant} is not in ledger {ledger.ledger}; "
                "score it with the ledger that it was run on"
            )
        if type(one.repetition) is not int or not 0 <= one.repetition < ledger.repetitions:
            raise FiguresError(
                f"task {one.task}, variant {one.variant}: repetition is {one.repetition!r}; "
                f"ledger {ledger.ledger} plans {ledger.repetitions}, numbered from 0"
            )
        known = found.setdefault(one.variant, defaultdict(dict))[one.task].setdefault(one.repetition, one)
        if known != one:
            raise FiguresError(
                f"task {one.task}, variant {one.variant}, repetition {one.repetition} has two results that "
                f"differ: {known} and {one}; keep the retained one"
            )
    return {
        variant: VariantAttempts(
            ledger,
            variant,
            {
                facts.task: tuple(one for _, one in sorted(by_task.get(facts.task, {}).items()))
                for facts in ledger.tasks
            },
        )
        for variant, by_task in found.items()
    }


@lru_cache(maxsize=65536)
def exact(reward: float) -> Fraction:
    """The reward as it is written: 0.1 is one tenth, not the nearest binary number to it."""
    return Fraction(repr(reward))


@lru_cache(maxsize=65536)
def exact_mean(rewards: tuple[float, ...]) -> Fraction:
    """Mean of one or more rewards, exact."""
    return sum(map(exact, rewards), Fraction()) / len(rewards)
