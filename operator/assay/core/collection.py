"""Collects a stream of records into what reports are made of; order and duplicates change nothing."""

import gc
import hashlib
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import NamedTuple

from assay.api.attempt_record import AttemptRecord, RecordSource, ResourceAmounts, ResourceUse
from assay.api.outcome import OutcomeClass
from assay.core.canonical import digest_of
from assay.core.deviations import ReadBy
from assay.core.prices import Cost, Prices
from assay.core.record_structs import as_struct, content_of
from assay.core.record_totals import Attempt, Replaced, first_try_of, kept_of
from assay.core.records_file import Place, RecordsError

NO_PRICES = Cost(None, "no price sheet was given")
NO_CALLS = Cost(Decimal())


@contextmanager
def collector_paused() -> Iterator[None]:
    """No garbage collection: nothing here makes a cycle, and all that is kept would be walked again."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


class Pair(NamedTuple):
    """A ledger and a variant: one row of the vector."""

    ledger: str
    variant: str


@dataclass(slots=True)
class PairRecords:
    """All that is kept of the records of one ledger and variant."""

    run: str
    run_uid: str | None
    source: RecordSource
    attempts: dict[tuple[str, int], Attempt] = field(default_factory=lambda: defaultdict(Attempt))
    seen: dict[tuple[str, int, int], tuple[bytes, Place]] = field(default_factory=dict)
    """Digest of each try's record by task, repetition and number, and where it stood."""
    retained: dict[tuple[str, int], tuple[int, Place]] = field(default_factory=dict)
    """The retained try of each attempt, and where it stood."""
    replaced: Replaced = field(default_factory=Replaced)
    tries: int = 0
    outcomes: Counter[OutcomeClass] = field(default_factory=Counter)
    harnesses: set[tuple[str | None, str | None, str | None]] = field(default_factory=set)
    """(Assay's version, its commit, Harbor's version) of the tries."""
    agents: set[tuple[str | None, str | None]] = field(default_factory=set)
    models: set[str] = field(default_factory=set)
    """Models that were declared or called."""
    fingerprint: str | None = None
    flags: set[str] = field(default_factory=set)
    starts: list[datetime] = field(default_factory=list)
    """Start of each first try, as far as known."""
    first_call: datetime | None = None
    """When the first model call of any try began."""
    calls_undated: int = 0
    """Retained tries that may have called a model, nobody knows when."""
    judges: set[ReadBy] = field(default_factory=set)
    resources: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Digests of what was asked for, by task."""


class Collection:
    """Every record so far. `add` raises RecordsError for a record that contradicts the others."""

    def __init__(
        self, prices: Prices | None = None, tasks: Mapping[str, frozenset[str]] | None = None
    ) -> None:
        """`tasks` are those of the known ledgers, by digest: a record of such a ledger must name one of
        them."""
        self.prices = prices
        self._tasks = tasks or {}
        self.pairs: dict[Pair, PairRecords] = {}
        self.ledger_digests: dict[str, str | None] = {}
        self.called_models: set[str] = set()
        self.records = 0
        """Different records; a duplicate counts once."""
        self._fingerprints: dict[str, tuple[str | None, Place]] = {}
        self._resource_digests: dict[tuple[int | None, ...], str] = {}

    def add_all(self, records: Iterable[tuple[Place, AttemptRecord]]) -> None:
        """Add every record of a stream."""
        with collector_paused():
            for place, record in records:
                self.add(place, record)

    def add(self, place: Place, record: AttemptRecord) -> None:
        """Add a record or its struct. The very same record again changes nothing."""
        record = as_struct(record)
        pair = Pair(sys.intern(record.ledger), sys.intern(record.variant))
        task = sys.intern(record.task)
        self._check_ledger(place, record)
        found = self._pair(place, pair, record)
        if not _is_new(found, place, record):
            return
        self.records += 1
        cost = self._cost(record)
        attempt = found.attempts[task, record.repetition]
        if record.retained:
            _check_only_retained(found, place, record)
            attempt.kept = kept_of(record, cost)
        else:
            found.replaced.add(record, cost)
        if record.try_number == 1:
            attempt.first_try = None if record.retained else first_try_of(record)
            if record.started_at is not None:
                found.starts.append(record.started_at)
        if record.try_number > attempt.last_try:
            attempt.last_try, attempt.last_outcome = record.try_number, record.outcome
            attempt.last_reason = record.reason
        self._note_facts(found, task, record)

    def _cost(self, record: AttemptRecord) -> Cost:
        if record.calls is not None and not record.calls:
            return NO_CALLS
        return self.prices.of_calls(record.calls) if self.prices else NO_PRICES

    def _note_facts(self, found: PairRecords, task: str, record: AttemptRecord) -> None:
        found.tries += 1
        found.outcomes[record.outcome] += 1
        harness = record.harness
        found.harnesses.add((harness.assay, harness.commit, harness.harbor))
        found.agents.add((harness.agent, harness.agent_version))
        found.models.update(record.models)
        found.flags.update(record.flags)
        for one in record.judgements:
            found.judges.add(ReadBy(one.criterion.value, one.model, one.prompt_digest))
        if record.first_call_at is not None:
            found.first_call = min(found.first_call or record.first_call_at, record.first_call_at)
        elif record.retained and record.calls != []:
            found.calls_undated += 1
        self.called_models.update([call.model for call in record.calls or () if call.model is not None])
        if record.resources is not None:
            found.resources[task].add(self._resources(record.resources))

    def _resources(self, use: ResourceUse) -> str:
        asked = (*_values(use.requested), *_values(use.limit))
        known = self._resource_digests.get(asked)
        if known is None:
            model = ResourceUse.model_validate(use, from_attributes=True)
            asked_for = model.model_dump(mode="json", exclude={"peak"}, exclude_none=True)
            known = self._resource_digests[asked] = digest_of(asked_for)
        return known

    def _check_ledger(self, place: Place, record: AttemptRecord) -> None:
        known = self.ledger_digests.setdefault(record.ledger, record.ledger_digest)
        if known != record.ledger_digest:
            raise RecordsError(
                f"{place}: ledgerDigest of ledger {record.ledger} is {record.ledger_digest}, of earlier "
                f"records {known}: these are two ledgers; score them apart"
            )
        tasks = self._tasks.get(record.ledger_digest or "")
        if tasks is not None and record.task not in tasks:
            raise RecordsError(
                f"{place}: task is {record.task}, which ledger {record.ledger} "
                f"({record.ledger_digest}) does not "
                "have: the record belongs to another ledger"
            )
        fingerprint, first = self._fingerprints.setdefault(
            record.variant, (record.variant_fingerprint, place)
        )
        if fingerprint != record.variant_fingerprint:
            raise RecordsError(
                f"{place}: variantFingerprint of variant {record.variant} is {record.variant_fingerprint}, "
                f"at {first} it is {fingerprint}: these are two variants; give them two names"
            )

    def _pair(self, place: Place, pair: Pair, record: AttemptRecord) -> PairRecords:
        found = self.pairs.get(pair)
        if found is None:
            found = self.pairs[pair] = PairRecords(record.run, record.run_uid, record.source)
            found.fingerprint = record.variant_fingerprint
        if (found.run, found.run_uid) != (record.run, record.run_uid):
            raise RecordsError(
                f"{place}: run is {record.run} ({record.run_uid}), earlier records of variant "
                f"{pair.variant} on ledger {pair.ledger} are of run {found.run} ({found.run_uid}): "
                "score each run alone, then use `assay compare`"
            )
        return found


def _is_new(found: PairRecords, place: Place, record: AttemptRecord) -> bool:
    content = hashlib.blake2b(content_of(record), digest_size=16).digest()
    identity = sys.intern(record.task), record.repetition, record.try_number
    mine = content, place
    known = found.seen.setdefault(identity, mine)
    if known[0] != content:
        raise RecordsError(
            f"{place}: try {record.try_number} of repetition {record.repetition} of task {record.task}, "
            f"variant {record.variant} disagrees with {known[1]}: keep the record that manifest.json supports"
        )
    return known is mine


def _check_only_retained(found: PairRecords, place: Place, record: AttemptRecord) -> None:
    attempt = sys.intern(record.task), record.repetition
    number, first = found.retained.setdefault(attempt, (record.try_number, place))
    if number != record.try_number:
        raise RecordsError(
            f"{place}: retained is true for try {record.try_number} of repetition {record.repetition} of "
            f"task {record.task}, variant {record.variant}, and for try {number} at {first}: only one try "
            "can decide"
        )


def _values(amounts: ResourceAmounts) -> tuple[int | None, ...]:
    return amounts.cpu_millis, amounts.memory_mib, amounts.storage_mib


def resource_digest(pairs: Mapping[Pair, PairRecords], ledger: str) -> str | None:
    """One digest over what all tries on a ledger asked for; None where no record says it."""
    asked: dict[str, set[str]] = defaultdict(set)
    for pair, found in pairs.items():
        if pair.ledger == ledger:
            for task, digests in found.resources.items():
                asked[task] |= digests
    return digest_of({task: sorted(digests) for task, digests in asked.items()}) if asked else None
