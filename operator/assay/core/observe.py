"""From collected records to observations: here a suite's rules decide what an attempt is worth."""

from collections.abc import Iterator

from assay.api.suite import Component, SuiteDefinition
from assay.core.collection import Pair, PairRecords
from assay.core.figures.attempts import VariantAttempts, collect
from assay.core.figures.observations import HackingVerdict, LedgerTasks, Observation, Refusal
from assay.core.record_totals import Kept


def attempts_of(
    pair: Pair,
    records: PairRecords | None,
    tasks: LedgerTasks,
    suite: SuiteDefinition | None = None,
    component: Component | None = None,
) -> VariantAttempts:
    """The attempts of a row, against the ledger's tasks. Raises FiguresError."""
    observations = _observations(pair, records, suite, component) if records else iter(())
    return collect(tasks, observations, [pair.variant])[pair.variant]


def _observations(
    pair: Pair, records: PairRecords, suite: SuiteDefinition | None, component: Component | None
) -> Iterator[Observation]:
    for (task, repetition), attempt in records.attempts.items():
        kept = attempt.kept
        yield Observation(
            task=task,
            variant=pair.variant,
            repetition=repetition,
            reward=_worth(kept, suite, component) if kept else None,
            first_try_reward=_first_try(attempt.first_try, kept, suite, component),
            refusal=kept.refusal if kept else Refusal.NONE,
            hacking=kept.hacking if kept else HackingVerdict.NOT_READ,
        )


def _worth(kept: Kept, suite: SuiteDefinition | None, component: Component | None) -> float:
    if component is not None and component.reward_hacking_judged and kept.hacking is HackingVerdict.FLAGGED:
        return 0.0
    if suite is not None and not suite.rules.fallback_scored and kept.refusal is Refusal.FALLBACK:
        return 0.0
    return kept.reward


def _first_try(
    reward: float | None, kept: Kept | None, suite: SuiteDefinition | None, component: Component | None
) -> float | None:
    """What the first try is worth: the suite's rules hold for it as for any other."""
    if kept is not None and kept.try_number == 1:
        return _worth(kept, suite, component)
    return reward
