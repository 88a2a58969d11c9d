"""Attempts written as counts, and the vectors of the project's method notes."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hypothesis import settings

from assay.core.figures.attempts import VariantAttempts, collect
from assay.core.figures.observations import LedgerTasks, Observation, TaskFacts

VECTORS: Mapping[str, Any] = json.loads((Path(__file__).parent / "method_vectors.json").read_text())
"""A copy of shared/method_vectors.json: the own arithmetic of the method notes, of 2026-11-30."""

untimed = settings(deadline=None)
"""Hypothesis times its examples otherwise, and a busy machine would fail them."""


def ledger_of(clusters: Sequence[str], repetitions: int = 3, name: str = "ledger") -> LedgerTasks:
    """A ledger with tasks t000, t001, … in these clusters."""
    facts = tuple(TaskFacts(f"t{i:03}", cluster) for i, cluster in enumerate(clusters))
    return LedgerTasks(name, facts, repetitions)


def attempts_of(
    ledger: LedgerTasks, rewards: Sequence[Sequence[float | None]], variant: str = "candidate"
) -> VariantAttempts:
    """A variant whose tasks, in order, have these rewards; None is an attempt without a result."""
    observations = [
        Observation(facts.task, variant, repetition, reward, first_try_reward=reward)
        for facts, found in zip(ledger.tasks, rewards, strict=True)
        for repetition, reward in enumerate(found)
    ]
    return collect(ledger, observations, [variant])[variant]


def passes(
    counts: Sequence[int],
    clusters: Sequence[str] | None = None,
    repetitions: int = 3,
    variant: str = "candidate",
) -> VariantAttempts:
    """A variant that passed each task so many times; each task is a cluster if none are given."""
    ledger = ledger_of(clusters or [f"c{i}" for i in range(len(counts))], repetitions)
    return attempts_of(ledger, [[1.0] * n + [0.0] * (repetitions - n) for n in counts], variant)
