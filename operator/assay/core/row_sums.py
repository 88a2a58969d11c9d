"""What a run's status shows of its recorded tries, summed up as they come."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Context, Decimal
from fractions import Fraction

from assay.api.evidence import PIN_EXTERNAL
from assay.api.outcome import OutcomeClass
from assay.core.figures.known_means import EXACT_DIGITS
from assay.core.record import TryRecord
from assay.core.record_totals import tokens_of

Row = tuple[str, str]
"""Ledger and variant."""

_EXACT = Context(prec=EXACT_DIGITS)


@dataclass(frozen=True, slots=True)
class KnownSum:
    """Exact sum of the values that are known, and their number."""

    whole: int = 0
    rest: Decimal = Decimal()
    n: int = 0

    def plus(self, value: float | None) -> "KnownSum":
        """With one more value; None is unknown."""
        if value is None:
            return self
        if isinstance(value, int):
            return KnownSum(self.whole + value, self.rest, self.n + 1)
        return KnownSum(self.whole, _EXACT.add(self.rest, Decimal(repr(value))), self.n + 1)

    @property
    def mean(self) -> Fraction | None:
        """Exact mean; None of nothing."""
        return (self.whole + Fraction(self.rest)) / self.n if self.n else None


@dataclass(slots=True)
class RowSums:
    """Sums of one ledger and variant."""

    outcomes: Counter[OutcomeClass] = field(default_factory=Counter)
    """All tries by class."""
    valid: int = 0
    """Attempts that have a result; what follows is about the retained tries alone."""
    flagged: int = 0
    input: KnownSum = KnownSum()
    cache_read: KnownSum = KnownSum()
    cache_write: KnownSum = KnownSum()
    output: KnownSum = KnownSum()
    agent_seconds: KnownSum = KnownSum()
    total_seconds: KnownSum = KnownSum()
    commits: set[str] = field(default_factory=set)
    versions: set[str] = field(default_factory=set)
    rewards: dict[str, tuple[float, ...]] = field(default_factory=dict)
    """What the attempts of each task count that have a result."""

    def retain(self, record: TryRecord, score: float) -> None:
        """Count the result of an attempt."""
        tokens = tokens_of(record.tokens)
        self.valid += 1
        self.flagged += any(flag != PIN_EXTERNAL for flag in record.flags)
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
