"""The report of a run that has ended: attempt records, run record and report in S3. May be repeated."""

import asyncio
import logging
import os
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import version
from itertools import batched
from pathlib import Path
from typing import IO

from assay.adapters.journal_store import JournalStore
from assay.adapters.report_page import PageError, page_in_a_process
from assay.adapters.s3 import AsyncS3Store, StoredObject
from assay.adapters.score_files import packaged_suites
from assay.api.attempt_record import AttemptRecord, RunRecord
from assay.api.evaluation_run import EvaluationRun
from assay.api.evaluation_run_status import Report as ReportPlace
from assay.api.evidence import Manifest
from assay.api.journal import SegmentHeader, SegmentRef
from assay.api.ledger_history import ResultFile
from assay.api.report import CodeVersion, Report
from assay.api.suite import SuiteDefinition
from assay.core.attempt_records import (
    Calls,
    TryEvidence,
    attempt_record,
    read_calls,
    run_record,
    with_agents_evidence,
)
from assay.core.attempts import Scored
from assay.core.canonical import digest_of_bytes
from assay.core.collection import Collection
from assay.core.ledger import LedgerFile
from assay.core.ledger_history import StoredReport, results_of
from assay.core.names import journal_prefix, run_prefix, try_prefix
from assay.core.plan import RunPlan
from assay.core.prices import Prices
from assay.core.reconcile import Decision
from assay.core.record import ManifestFound, TryRecord
from assay.core.records_file import Place
from assay.core.report import make_report
from assay.core.score_input import ReportRefusedError, ScoreInput, match_components, scored_ledgers
from assay.core.segments import JournalError
from assay.core.try_spec import storage_of
from assay.core.written_report import WrittenReport
from assay.handlers.run_history import RunHistory
from assay.handlers.storage import RunEvidence

log = logging.getLogger(__name__)

READ_AT_ONCE = 16
LARGEST_SEGMENT = 256 << 20
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class KnownOfRun:
    """What its loop knows of an ended run beside plan and decision."""

    frozen: Mapping[str, datetime]
    """When each Ledger was first verified, by its name."""
    journal_head: SegmentRef | None
    prices: Prices | None


class RunReporter:
    """Writes the report of one run. Every method raises `StorageError`."""

    def __init__(self, store: AsyncS3Store, run: EvaluationRun) -> None:
        self._store, self._run = store, run
        self._storage = storage_of(run)
        self._evidence = RunEvidence(store, run)
        self._history = RunHistory(store, self._storage.bucket)

    async def write(
        self, run: EvaluationRun, plan: RunPlan, decision: Decision, known: KnownOfRun
    ) -> WrittenReport:
        """Make and store the report of a finished decision; the same input gives the same objects.

        A report that cannot be made is a bug or a contradiction in the records: it is told, and the run ends
        without one, for its evidence is complete.
        """
        ended = max((record.ended_at for record in _tries(decision)), default=run.status.started_at)
        with tempfile.NamedTemporaryFile() as file:
            try:
                first = await self._opening()
                record = run_record(run, plan, known.frozen, first).model_copy(
                    update={
                        "completed_at": ended,
                        "journal_head": known.journal_head,
                        "price_sheet": known.prices.digest if known.prices else None,
                        **_revision(run),
                    }
                )
                collection = await self._collect(plan, decision, known.prices, file)
                report, record = await self._score(plan, record, collection)
            except ValueError as error:
                log.exception("run %s/%s: no report", run.metadata.namespace, run.metadata.name)
                return WrittenReport(problem=f"no report could be made: {error}")
            return await self._store_all(run, record, file, report)

    async def _opening(self) -> SegmentHeader | None:
        """What the journal said before the first Job; None where that cannot be read any more."""
        uid = self._run.metadata.uid
        prefix = journal_prefix(self._storage, uid)
        try:
            return await JournalStore(self._store, self._storage.bucket, prefix, uid).opening()
        except JournalError as error:
            log.warning("run %s: %s", self._run.metadata.name, error)
            return None

    async def _collect(
        self, plan: RunPlan, decision: Decision, prices: Prices | None, file: IO[bytes]
    ) -> Collection:
        """Write the attempt records to `file` and collect them on their way, one batch in memory."""
        collection = Collection(prices, {one.digest: frozenset(one.tasks) for one in plan.ledgers.values()})
        number = 0
        for some in batched(_tries(decision), READ_AT_ONCE, strict=False):
            made_of = (self._record(plan, decision, one) for one in some)
            for made in await asyncio.gather(*made_of):
                number += 1
                file.write(made.model_dump_json(by_alias=True, exclude_none=True).encode() + b"\n")
                collection.add(Place("attempts.jsonl", number), made)
        return collection

    async def _score(
        self, plan: RunPlan, record: RunRecord, collection: Collection
    ) -> tuple[Report, RunRecord]:
        """The report, and the run's record with what the ledgers' lists say."""
        given = await asyncio.to_thread(_score_input, plan, record, collection)
        given = await self._history.complete(given, record)
        return await asyncio.to_thread(make_report, given, code_version()), given.runs[record.uid]

    async def _record(
        self,
        plan: RunPlan,
        decision: Decision,
        record: TryRecord,
    ) -> AttemptRecord:
        found = await self.evidence_of(record) if record.manifest_digest else None
        state = decision.states.get(record.key)
        result = state.retained if isinstance(state, Scored) else None
        if result is None or result.try_number != record.try_number:
            within = result.try_number if result and result.verifies == record.try_number else None
            return attempt_record(self._run, plan, record, found, retained=False, figures_in=within)
        if result.verifies is not None:
            tries = decision.records[result.key]
            judged = next((one for one in tries if one.try_number == result.verifies), None)
            ran = await self.evidence_of(judged) if judged and judged.manifest_digest else None
            found = with_agents_evidence(found, ran)
        return attempt_record(self._run, plan, result, found, retained=True)

    async def evidence_of(self, record: TryRecord) -> TryEvidence | None:
        """Manifest and calls of a try; None if its manifest is no longer the one that was recorded."""
        answer = await self._evidence.manifest_of(
            record.key, record.try_number, record.job_name, record.pod_uid
        )
        if not isinstance(answer, ManifestFound) or answer.digest != record.manifest_digest:
            log.warning("Job %s: its manifest is no longer the one that was recorded", record.job_name)
            return None
        return TryEvidence(answer.manifest, await self._calls(answer.manifest))

    async def _calls(self, manifest: Manifest) -> Calls:
        """The try's calls. A segment that is not the manifest's is left out: the cost is then unknown."""
        prefix = try_prefix(self._storage, manifest.identity, manifest.pod_uid)
        calls = Calls()
        for file in manifest.files:
            if not file.path.startswith("calls/"):
                continue
            content = await self._store.get_bytes(self._storage.bucket, prefix + file.path, LARGEST_SEGMENT)
            if digest_of_bytes(content) != file.sha256:
                log.warning("%s%s is not what the manifest lists", prefix, file.path)
                continue
            calls += await asyncio.to_thread(read_calls, content, file.path)
        return calls

    async def _store_all(
        self, run: EvaluationRun, record: RunRecord, file: IO[bytes], report: Report
    ) -> WrittenReport:
        """Store all objects, the report last."""
        prefix = f"{run_prefix(self._storage, run.metadata.uid)}report/{record.revision}/"
        await self._put(f"{prefix}run.json", record.model_dump_json(by_alias=True, indent=2).encode())
        file.seek(0)
        attempts = await self._store.put_stream(
            self._storage.bucket, f"{prefix}attempts.jsonl", _chunks(file), content_type="application/jsonl"
        )
        content = report.model_dump_json(by_alias=True, indent=2).encode() + b"\n"
        page = await self._page(prefix, content, file)
        stored = await self._put(f"{prefix}report.json", content)
        place = ReportPlace(
            revision=record.revision,
            digest=stored.sha256,
            bucket=self._storage.bucket,
            key=stored.key,
            supersedes=record.supersedes,
            html_key=page.key if page else None,
            html_digest=page.sha256 if page else None,
        )
        await self._history.add(
            results_of(
                record,
                StoredReport(
                    report=report,
                    namespace=run.metadata.namespace,
                    revision=place.revision,
                    attempts_file=ResultFile(key=attempts.key, digest=attempts.sha256),
                    report_file=ResultFile(key=stored.key, digest=stored.sha256),
                ),
            )
        )
        return WrittenReport(place, report)

    async def _page(self, prefix: str, report: bytes, attempts: IO[bytes]) -> StoredObject | None:
        """Store the report as a page to read. The figures stand without it, so a run does not fail for it."""
        address = f"s3://{self._storage.bucket}/{prefix}"
        with tempfile.NamedTemporaryFile() as file:
            await asyncio.to_thread(_fill, file, report)
            try:
                page = await page_in_a_process(
                    Path(file.name),
                    Path(attempts.name),
                    f"{address}report.json",
                    f"{address}attempts.jsonl",
                )
            except PageError as error:
                log.error("run %s: no report.html could be made: %s", self._run.metadata.name, error)
                return None
        return await self._store.put_bytes(
            self._storage.bucket, f"{prefix}report.html", page, content_type="text/html; charset=utf-8"
        )

    async def _put(self, key: str, content: bytes) -> StoredObject:
        return await self._store.put_bytes(
            self._storage.bucket, key, content, content_type="application/json"
        )


def _tries(decision: Decision) -> Iterator[TryRecord]:
    """Every recorded try by attempt and number; of a large run they are not all in memory at once."""
    return (record for key in sorted(decision.records) for record in decision.records[key])


def _revision(run: EvaluationRun) -> dict[str, object]:
    """Fields of the run record: which revision its report is, and the digest of the one before."""
    revision, before = 1 + run.spec.retry.unscored_only, run.status.report
    if before is None:
        return {"revision": revision}
    # Made once more after an answer that was lost, it is the same report again.
    same = before.revision == revision
    return {"revision": revision, "supersedes": before.supersedes if same else before.digest}


def _fill(file: IO[bytes], content: bytes) -> None:
    file.write(content)
    file.flush()


async def _chunks(file: IO[bytes]) -> AsyncIterator[bytes]:
    while chunk := await asyncio.to_thread(file.read, _CHUNK):
        yield chunk


def code_version() -> CodeVersion:
    """The code of this process."""
    return CodeVersion(assay=version("assay"), commit=os.environ.get("ASSAY_COMMIT") or None)


def _score_input(plan: RunPlan, record: RunRecord, collection: Collection) -> ScoreInput:
    files = [
        LedgerFile(ledger.header, tuple(ledger.tasks.values()), ledger.digest)
        for ledger in plan.ledgers.values()
    ]
    scored = scored_ledgers(collection, files, [record])
    suite = _suite(record)
    return ScoreInput(
        collection=collection,
        ledgers=scored,
        runs={record.uid: record},
        suite=suite,
        components=match_components(suite, scored) if suite else {},
        baseline=record.baseline,
    )


def _suite(record: RunRecord) -> SuiteDefinition | None:
    if record.suite is None:
        return None
    suites = packaged_suites()
    if record.suite not in suites:
        raise ReportRefusedError(
            f"suite {record.suite} is not one that Assay ships ({', '.join(suites)}): score the run's "
            "files with `assay score --suite FILE`"
        )
    return suites[record.suite]
