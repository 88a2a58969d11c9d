"""Scores: the mean over tasks of each task's mean (method §4.1), strict and valid side by side (BAR 1)."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from assay.core.figures.attempts import VariantAttempts, exact_mean
from assay.core.figures.observations import TaskFacts

type TaskScores = Mapping[str, Fraction]
"""Task id to the mean reward of its attempts, from 0 to 1, exact."""

type Label = Literal["category", "language", "difficulty"]


@dataclass(frozen=True, slots=True)
class Score:
    """The score of a variant on a set of tasks. All scores are exact and from 0 to 1.

    `strict` counts an attempt without a valid result as 0; rank and index use it. `valid` leaves such
    attempts out, and with them tasks that have none. Every score is None, and `reason` says why, where no
    attempt is valid; `first_try_reason` does so for the first tries.
    """

    strict: Fraction | None
    valid: Fraction | None
    cluster_mean: Fraction | None
    """Mean over clusters of their tasks' mean strict score: one bug that many tasks share counts once."""
    first_try_strict: Fraction | None
    first_try_valid: Fraction | None
    """As strict and valid, from what each attempt's first try gave: without the second chance of re-runs."""
    tasks: int
    tasks_valid: int
    """Tasks with a valid attempt: the n of `valid`."""
    clusters: int
    attempts_planned: int
    attempts_valid: int
    first_tries_valid: int
    reason: str | None = None
    first_try_reason: str | None = None

    @property
    def coverage(self) -> Fraction:
        """Valid attempts of planned ones."""
        return Fraction(self.attempts_valid, self.attempts_planned)


@dataclass(frozen=True, slots=True)
class GroupScore:
    """The score of the tasks that share one value of a label; `value` is None for tasks without the label."""

    label: Label
    value: str | None
    score: Score


def mean(values: Iterable[Fraction]) -> Fraction | None:
    """Exact mean; None of nothing."""
    known = list(values)
    return exact_sum(known) / len(known) if known else None


def mean_of_means(groups: Iterable[tuple[float, ...]]) -> Fraction | None:
    """Mean over groups of each one's mean reward, exact; groups without a reward are left out."""
    # Few groups differ: equal ones are counted, and each different one is a fraction once.
    counts = Counter(groups)
    n = sum(counts.values()) - counts.pop((), 0)
    return _total((exact_mean(rewards), count) for rewards, count in counts.items()) / n if n else None


def strict_scores(attempts: VariantAttempts) -> dict[str, Fraction]:
    """Score of every task of the ledger, a missing result being 0."""
    return {task: exact_mean(attempts.strict_rewards(task)) for task in attempts.by_task}


def valid_scores(attempts: VariantAttempts) -> dict[str, Fraction]:
    """Score of every task that has a valid attempt, from these alone."""
    rewards = {task: attempts.valid_rewards(task) for task in attempts.by_task}
    return {task: exact_mean(found) for task, found in rewards.items() if found}


def score(attempts: VariantAttempts) -> Score:
    """The score over all tasks of the ledger."""
    return _score_of(attempts, attempts.ledger.tasks)


def scores_by(attempts: VariantAttempts, label: Label) -> tuple[GroupScore, ...]:
    """The scores of the groups of a label, by its value, tasks without it last."""
    groups: dict[str | None, list[TaskFacts]] = defaultdict(list)
    for facts in attempts.ledger.tasks:
        groups[getattr(facts, label)].append(facts)
    order = sorted(groups, key=lambda value: (value is None, value or ""))
    return tuple(GroupScore(label, value, _score_of(attempts, groups[value])) for value in order)


def clusters_of(tasks: Iterable[TaskFacts]) -> dict[str, str]:
    """Task id to cluster."""
    return {facts.task: facts.cluster for facts in tasks}


def _score_of(attempts: VariantAttempts, tasks: Iterable[TaskFacts]) -> Score:
    clusters = clusters_of(tasks)
    rewards = [attempts.rewards[task] for task in clusters]
    valid, first = [one.valid for one in rewards], [one.first_try for one in rewards]
    some, some_first = any(valid), any(first)
    planned = attempts.ledger.repetitions
    padded = (found + (0.0,) * (planned - len(found)) for found in first)
    groups: dict[str, list[float]] = defaultdict(list)
    for one, cluster in zip(rewards, clusters.values(), strict=True):
        groups[cluster] += one.strict
    return Score(
        strict=mean_of_means(one.strict for one in rewards) if some else None,
        valid=mean_of_means(valid),
        # Each task has the same number of strict rewards, so a cluster's mean is that of its tasks' means.
        cluster_mean=mean_of_means(map(tuple, groups.values())) if some else None,
        first_try_strict=mean_of_means(padded) if some_first else None,
        first_try_valid=mean_of_means(first),
        tasks=len(clusters),
        tasks_valid=sum(map(bool, valid)),
        clusters=len(groups),
        attempts_planned=len(clusters) * planned,
        attempts_valid=sum(map(len, valid)),
        first_tries_valid=sum(map(len, first)),
        reason=None if some else f"none of {len(clusters) * planned} planned attempts has a valid result",
        first_try_reason=None if some_first else "no first try gave a valid result",
    )


def exact_sum(values: Iterable[Fraction]) -> Fraction:
    """Exact sum."""
    known = list(values)
    # Most clusters are one task.
    return known[0] if len(known) == 1 else _total((value, 1) for value in known)


def _total(counted: Iterable[tuple[Fraction, int]]) -> Fraction:
    """Sum of values times counts, by denominator first: many times faster than adding one by one."""
    numerators: dict[int, int] = defaultdict(int)
    for value, count in counted:
        top, bottom = value.as_integer_ratio()
        numerators[bottom] += top * count
    return sum((Fraction(top, bottom) for bottom, top in numerators.items()), Fraction())
