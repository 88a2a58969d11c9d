"""Totals of a run's recorded tries for the metrics: folded from the journal, so a restart finds the same.

They never shrink and do not depend on when they are computed. Their number is that of ledgers times variants,
whatever the number of attempts.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from assay.api.evaluation_run import EvaluationRunSpec
from assay.api.outcome import OutcomeClass
from assay.core.packed_tries import tries_since
from assay.core.record import AttemptKey, TryRecord
from assay.core.record_totals import TOKEN_KINDS, tokens_of

PHASES = ("setup", "agent", "verifier", "upload", "total")
"""What the time of a try is told by; `total` is the whole try."""
PHASE_BOUNDS = (5.0, 15.0, 60.0, 180.0, 600.0, 1800.0, 3600.0, 7200.0)
"""Upper bounds in seconds: an upload takes some, an agent an hour."""

Row = tuple[str, str]
"""Ledger and variant."""


@dataclass(slots=True)
class Distribution:
    """How many values lie at or below each of `PHASE_BOUNDS`, by bucket and not yet added up."""

    buckets: list[int] = field(default_factory=lambda: [0] * (len(PHASE_BOUNDS) + 1))
    total: float = 0.0

    def add(self, seconds: float) -> None:
        """Count one value."""
        self.buckets[bisect_left(PHASE_BOUNDS, seconds)] += 1
        self.total += seconds


@dataclass(slots=True)
class RowTotals:
    """Totals of one ledger and variant over every recorded try, replaced ones included."""

    tries: Counter[OutcomeClass] = field(default_factory=Counter)
    attempts: Counter[OutcomeClass] = field(default_factory=Counter)
    """Attempts by the class of their latest recorded try: that of the retained one, where there is one."""
    infrastructure_errors: int = 0
    refusals: int = 0
    flagged: int = 0
    model_calls: int = 0
    metered: int = 0
    """Tries whose tokens are known at all."""
    tokens: dict[str, int] = field(default_factory=lambda: dict.fromkeys(TOKEN_KINDS, 0))
    phases: dict[str, Distribution] = field(
        default_factory=lambda: {phase: Distribution() for phase in PHASES}
    )

    def add(self, record: TryRecord) -> None:
        """Count one try."""
        self.tries[record.outcome] += 1
        self.infrastructure_errors += record.rule.infrastructure
        self.refusals += record.rule.refusal
        self.flagged += record.flagged
        self.model_calls += record.model_calls or 0
        self._add_tokens(record)
        seconds = (
            record.setup_seconds,
            record.agent_seconds,
            record.verifier_seconds,
            record.upload_seconds,
            record.total_seconds,
        )
        for phase, value in zip(PHASES, seconds, strict=True):
            if value is not None:
                self.phases[phase].add(value)

    def _add_tokens(self, record: TryRecord) -> None:
        known = False
        for kind, count in zip(TOKEN_KINDS, tokens_of(record.tokens), strict=True):
            if count is not None:
                known = True
                self.tokens[kind] += count
        self.metered += known


class RunTotals:
    """Totals of one run; `rows` has every ledger and variant of the spec from the start."""

    def __init__(self, spec: EvaluationRunSpec) -> None:
        self.rows: dict[Row, RowTotals] = {row: RowTotals() for row in rows_of(spec)}
        self._taken = 0
        self._latest: dict[AttemptKey, tuple[int, OutcomeClass]] = {}

    def outstanding(self, records: Mapping[str, TryRecord]) -> int:
        """How many of the journal's records are not counted yet."""
        return len(records) - self._taken

    def take(self, records: Mapping[str, TryRecord]) -> None:
        """Count what the journal holds beyond the last call. It only ever appends."""
        for record in tries_since(records, self._taken):
            self._add(record)
        self._taken = len(records)

    def _add(self, record: TryRecord) -> None:
        row = self.rows.get((record.key.ledger, record.key.variant))
        if row is None:
            return
        row.add(record)
        number, outcome = self._latest.get(record.key, (0, record.outcome))
        if record.try_number > number:
            self._latest[record.key] = record.try_number, record.outcome
            row.attempts[record.outcome] += 1
            if number:
                row.attempts[outcome] -= 1

    def freeze(self) -> None:
        """Give back the memory that only further records would need: the run has ended."""
        self._latest = {}


def rows_of(spec: EvaluationRunSpec) -> Iterable[Row]:
    """Ledger and variant of each row of the run's vector."""
    return ((ledger.name, variant.name) for ledger in spec.ledgers for variant in spec.variants)
