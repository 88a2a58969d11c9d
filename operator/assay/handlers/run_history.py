"""What other runs on a run's ledgers left: read when its report is made, and told to those that follow."""

import asyncio
import tempfile
from collections.abc import Iterable

from assay.adapters.ledger_history import (
    ResultFileChangedError,
    add_ledger_results,
    fetch_result_file,
    read_ledger_history,
)
from assay.adapters.s3 import AsyncS3Store, NoSuchKey
from assay.api.attempt_record import RunRecord
from assay.api.ledger_history import DriftReference, LedgerResult
from assay.core.collection import Collection
from assay.core.ledger_history import LedgerHistory, all_earlier, reference_of
from assay.core.records_file import RecordsError, read_structs
from assay.core.report_drift import complete_baselines
from assay.core.score_input import ScoreInput


class RunHistory:
    """The lists of a run's ledgers. Every method raises StorageError."""

    def __init__(self, store: AsyncS3Store, bucket: str) -> None:
        self._store, self._bucket = store, bucket

    async def complete(self, given: ScoreInput, record: RunRecord) -> ScoreInput:
        """The input with what the lists say in the run's record, and with the records of the references."""
        histories = {
            facts.name: await read_ledger_history(self._store, self._bucket, facts.digest)
            for facts in record.ledgers
        }
        references, collections = [], []
        for ledger, history in histories.items() if record.baseline else ():
            reference, records = await self._reference(given, record, ledger, history)
            references.append(reference)
            collections += [records] if records is not None else []
        told = record.model_copy(
            update={"references": references, "earlier_runs": list(all_earlier(record, histories))}
        )
        return given.with_run(told, collections)

    async def add(self, results: Iterable[LedgerResult]) -> None:
        """Put the run's results on the lists."""
        await add_ledger_results(self._store, self._bucket, results)

    async def _reference(
        self, given: ScoreInput, record: RunRecord, ledger: str, history: LedgerHistory
    ) -> tuple[DriftReference, Collection | None]:
        reference, entry = reference_of(record, ledger, history, complete_baselines(given))
        if entry is None:
            return reference, None
        with tempfile.TemporaryFile() as file:
            try:
                await fetch_result_file(self._store, self._bucket, entry.attempts, file)
                return reference, await asyncio.to_thread(_baseline_records, file, entry)
            except (NoSuchKey, RecordsError, ResultFileChangedError) as error:
                words = f"the records of reference run {entry.run_name} cannot be used: {error}"
                return reference.model_copy(update={"reason": words[:1000]}), None


def _baseline_records(lines: Iterable[bytes], entry: LedgerResult) -> Collection:
    """What the baseline of the reference run left on the ledger. Raises RecordsError."""
    mine = entry.baseline_result
    found = Collection()
    found.add_all(
        (place, record)
        for place, record in read_structs(lines, f"attempts.jsonl of run {entry.run_name}")
        if mine is not None
        and record.ledger_digest == entry.ledger_digest
        and record.variant_fingerprint == mine.fingerprint
    )
    return found
