"""What a run's status shows of its recorded tries, summed up as they come."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from assay.api.outcome import OutcomeClass
from assay.core.figures.known_means import KnownSum
from assay.core.record import TryRecord
from assay.core.record_totals import tokens_of

Row = tuple[str, str]
"""Ledger and variant."""

_NONE = KnownSum()


@dataclass(slots=True)
class RowSums:
    """Sums of one ledger and variant."""

    outcomes: Counter[OutcomeClass] = field(default_factory=Counter)
    """All tries by class."""
    valid: int = 0
    """Attempts that have a result; what follows is about the retained tries alone."""
    flagged: int = 0
    input: KnownSum = _NONE
    cache_read: KnownSum = _NONE
    cache_write: KnownSum = _NONE
    output: KnownSum = _NONE
    agent_seconds: KnownSum = _NONE
    total_seconds: KnownSum = _NONE
    commits: set[str] = field(default_factory=set)
    versions: set[str] = field(default_factory=set)
    rewards: dict[str, tuple[float, ...]] = field(default_factory=dict)
    """What the attempts of each task count that have a result."""

    def retain(self, record: TryRecord, score: float) -> None:
        """Count the result of an attempt."""
        tokens = tokens_of(record.tokens)
        self.valid += 1
        self.flagged += record.flagged
        self.input = self.input.plus(tokens.input)
        self.cache_read = self.cache_read.plus(tokens.cache_read)
        self.cache_write = self.cache_write.plus(tokens.cache_write)
        self.output = self.output.plus(tokens.output)
        self.agent_seconds = self.agent_seconds.plus(record.agent_seconds)
        self.total_seconds = self.total_seconds.plus(record.total_seconds)
        self.commits.add(record.harness_commit)
        self.versions.add(record.harbor_version)
        task = record.key.task
        # Sorted, so that it does not matter in which order results are recorded.
        self.rewards[task] = tuple(sorted((*self.rewards.get(task, ()), score)))

    def copy(self) -> "RowSums":
        """The same sums, apart from these."""
        return replace(
            self,
            outcomes=Counter(self.outcomes),
            commits=set(self.commits),
            versions=set(self.versions),
            rewards=dict(self.rewards),
        )


@dataclass(frozen=True, slots=True)
class FiguresSoFar:
    """What the status shows of the tries that have ended."""

    rows: Mapping[Row, RowSums]
    failed: tuple[TryRecord, ...]
    """The newest tries that are no result, the newest first."""

    @property
    def outcomes(self) -> Counter[OutcomeClass]:
        """All tries by class."""
        found = Counter[OutcomeClass]()
        for row in self.rows.values():
            found.update(row.outcomes)
        return found


def newest_failed(tries: Iterable[TryRecord], count: int) -> tuple[TryRecord, ...]:
    """Those of the tries that are no result, the newest first, at most `count`."""
    failed = [record for record in tries if not record.rule.retained]
    failed.sort(key=lambda record: (record.ended_at, record.job_name), reverse=True)
    return tuple(failed[:count])
