"""The baseline of a report against the reference runs of its ledgers."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from assay.core.collection import Collection, Pair, PairRecords
from assay.core.figures.attempts import VariantAttempts
from assay.core.figures.drift import Drift, drift
from assay.core.figures.drift_gate import DriftGate, drift_gate
from assay.core.figures.observations import LedgerTasks
from assay.core.observe import attempts_of
from assay.core.score_input import ScoredLedger, ScoreInput


@dataclass(slots=True)
class BaselineDrift:
    """Drifts by ledger. Other ledgers are untested, with the reason, or this run is the first on them."""

    found: dict[str, Drift] = field(default_factory=dict)
    untested: dict[str, str] = field(default_factory=dict)
    first: set[str] = field(default_factory=set)

    def gate(self, threshold: float) -> DriftGate:
        """Whether ranking may go on."""
        return drift_gate(self.found, threshold, self.untested, self.first)


def baseline_drift(given: ScoreInput, attempts: Mapping[Pair, VariantAttempts]) -> BaselineDrift:
    """Test the baseline on every ledger that has a reference. Raises FiguresError."""
    drifts = BaselineDrift()
    if given.baseline is None:
        return drifts
    drifts.first = {
        name for name, one in given.references.items() if one.is_this_run and name in given.ledgers
    }
    family = 2 * (len(given.ledgers) - len(drifts.first))
    for name, ledger in given.ledgers.items():
        pair = Pair(name, given.baseline)
        if name in drifts.first or pair not in attempts:
            continue
        earlier = _reference(given, ledger, pair)
        if earlier is not None:
            drifts.found[name] = drift(earlier, attempts[pair], given.drift_threshold, family)
        elif name in given.references or given.reference:
            told = given.references.get(name)
            drifts.untested[name] = (told.reason if told else None) or _MISSING
    return drifts


def complete_baselines(given: ScoreInput) -> set[str]:
    """Ledgers on which every planned attempt of the baseline has a valid result."""
    found = set()
    for name, ledger in given.ledgers.items():
        pair = Pair(name, given.baseline or "")
        attempts = attempts_of(pair, given.collection.pairs.get(pair), ledger.tasks, given.worth_on(name))
        if len(attempts.retained) == attempts.planned:
            found.add(name)
    return found


_MISSING = "no records of this very baseline on this ledger were given"


def _reference(given: ScoreInput, ledger: ScoredLedger, pair: Pair) -> VariantAttempts | None:
    for collection in given.reference:
        for other, records in collection.pairs.items():
            if _same_ledger(collection, other, ledger) and _same_variant(
                given.collection, pair, other, records
            ):
                tasks = LedgerTasks(ledger.name, ledger.tasks.tasks, _repetitions(records, ledger))
                return attempts_of(pair, records, tasks, given.worth_on(ledger.name))
    return None


def _same_ledger(collection: Collection, other: Pair, ledger: ScoredLedger) -> bool:
    digest = collection.ledger_digests[other.ledger]
    return digest == ledger.digest and (digest is not None or other.ledger == ledger.name)


def _same_variant(mine: Collection, pair: Pair, other: Pair, records: PairRecords) -> bool:
    """A variant is its fingerprint, whatever a run calls it; without one it is its name."""
    own = mine.pairs.get(pair)
    if own is None or own.fingerprint is None or records.fingerprint is None:
        return other.variant == pair.variant
    return own.fingerprint == records.fingerprint


def _repetitions(records: PairRecords, ledger: ScoredLedger) -> int:
    """The reference may have had more repetitions than this run."""
    return max(ledger.tasks.repetitions, 1 + max(repetition for _, repetition in records.attempts))
