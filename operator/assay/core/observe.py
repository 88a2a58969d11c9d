"""From collected records to observations: suite and plan decide what an attempt is worth."""

from collections.abc import Iterator
from dataclasses import dataclass

from assay.core.collection import Pair, PairRecords
from assay.core.figures.attempts import VariantAttempts, collect
from assay.core.figures.observations import HackingVerdict, LedgerTasks, Observation, Refusal
from assay.core.record_totals import FirstTry, Kept


@dataclass(frozen=True, slots=True)
class Worth:
    """What suite and plan make of attempts that did not simply run through."""

    flagged_is_zero: bool = False
    """Whether a pass that a judge calls reward hacking scores 0."""
    fallback_scored: bool = True
    """Whether an attempt that another model finished keeps its score."""
    blocked_is_zero: bool = True
    """Whether an attempt that was blocked to the end scores 0; else it has no result."""

    def of(self, kept: Kept | FirstTry | None) -> float | None:
        """The reward of a retained or first try by these rules; None is no result."""
        if kept is None or kept.reward is None:
            return None
        if kept.hacking is HackingVerdict.FLAGGED and self.flagged_is_zero:
            return 0.0
        if kept.refusal is Refusal.FALLBACK and not self.fallback_scored:
            return 0.0
        if kept.refusal is Refusal.BLOCKED:
            return 0.0 if self.blocked_is_zero else None
        return kept.reward


def attempts_of(pair: Pair, records: PairRecords | None, tasks: LedgerTasks, worth: Worth) -> VariantAttempts:
    """The attempts of a row, against the ledger's tasks. Raises FiguresError.

    Records of tasks that the plan excludes, and that `tasks` therefore lacks, take no part.
    """
    scored = {facts.task for facts in tasks.tasks}
    observations = _observations(pair, records, scored, worth) if records else iter(())
    return collect(tasks, observations, [pair.variant])[pair.variant]


def _observations(pair: Pair, records: PairRecords, scored: set[str], worth: Worth) -> Iterator[Observation]:
    for (task, repetition), attempt in records.attempts.items():
        if task not in scored:
            continue
        kept = attempt.kept
        first_counts = kept is not None and kept.try_number == 1
        yield Observation(
            task=task,
            variant=pair.variant,
            repetition=repetition,
            reward=worth.of(kept),
            first_try_reward=worth.of(kept if first_counts else attempt.first_try),
            refusal=kept.refusal if kept else Refusal.NONE,
            hacking=kept.hacking if kept else HackingVerdict.NOT_READ,
        )
