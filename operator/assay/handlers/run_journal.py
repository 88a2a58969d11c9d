"""The journal of one run as its loop uses it: opened before anything is decided, written in batches."""

import logging
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from assay.adapters.journal_store import JournalStore, add_ledger_runs
from assay.adapters.s3 import StorageError
from assay.api.evaluation_run import EvaluationRun
from assay.api.evaluation_run_status import RunReason
from assay.api.journal import SegmentRef
from assay.core.journal import Draft, Journal
from assay.core.journal_opening import ledger_runs, opening_of
from assay.core.names import journal_prefix
from assay.core.plan import RunPlan
from assay.core.record import TryRecord
from assay.core.resolve import Problem
from assay.core.segments import JournalError
from assay.core.try_spec import storage_of
from assay.handlers.context import Context
from assay.handlers.storage import storage_problem

log = logging.getLogger(__name__)

BATCH_SECONDS = 0.5
"""Results are collected for this long, so that a run writes a segment now and then, not one a try.

Short, since a Job stays until its result is durable: of one that goes within a second of its pod's end the
Job controller writes no last status, which costs the API server as much as the deletion.
"""
BATCH_SIZE = 500


class RunJournal:
    """Decide nothing before `open` has returned None. One call at a time; each raises JournalSuperseded."""

    def __init__(self, context: Context, run: EvaluationRun) -> None:
        self._context, self._run_name = context, run.metadata.name
        self._bucket = storage_of(run).bucket
        prefix = journal_prefix(storage_of(run), run.metadata.uid)
        self._files = JournalStore(context.store, self._bucket, prefix, run.metadata.uid)
        self._journal: Journal | None = None
        self._draft: Draft | None = None
        self._since: float | None = None
        """When a result was first seen that is not durable yet."""

    @property
    def records(self) -> Mapping[str, TryRecord]:
        """Durable records by Job name."""
        return self._journal.records if self._journal else {}

    @property
    def head(self) -> SegmentRef | None:
        """The last durable segment."""
        return self._journal.head if self._journal else None

    @property
    def is_open(self) -> bool:
        """Whether it is known what is recorded."""
        return self._journal is not None

    async def open(self) -> Problem | None:
        """Take the journal over and read it, unless that is done."""
        if self._journal is not None:
            return None
        begun = time.monotonic()
        try:
            journal = await self._files.take_over(self._context.lease.epoch, self._context.settings.pod_uid)
        except StorageError as error:
            return storage_problem(error)
        except JournalError as error:
            return _damage(error)
        self._journal = journal
        log.info(
            "run %s: journal of %d tries in %d segments read in %.1f s",
            self._run_name,
            len(journal.records),
            journal.sequence,
            time.monotonic() - begun,
        )
        return None

    async def confirm(self) -> None:
        """Return if this process is still the journal's writer. Raises StorageError."""
        await self._files.check_fence(self._context.lease.epoch)

    async def begin(self, run: EvaluationRun, plan: RunPlan) -> Problem | None:
        """Put on record what the run measures, before its first Job and before the first result."""
        journal = self._opened()
        if journal.sequence:
            return None
        now = datetime.now(UTC)
        try:
            await add_ledger_runs(self._context.store, self._bucket, ledger_runs(run, plan, now))
            self._draft = self._draft or journal.next_segment((), now, opening_of(run, plan))
            await self._write(journal)
        except StorageError as error:
            return storage_problem(error)
        return None

    async def record(self, tries: Sequence[TryRecord], *, at_once: bool) -> Problem | None:
        """Make the tries durable once enough have come together, or `at_once`."""
        journal = self._opened()
        try:
            # What may have been written already is written again, byte by byte, before anything else.
            await self._write(journal)
            new = [one for one in tries if one.job_name not in journal.records]
            if self._is_due(len(new), at_once=at_once):
                self._draft = journal.next_segment(new, datetime.now(UTC))
                await self._write(journal)
                self._since = None
                while (compaction := journal.next_compaction(datetime.now(UTC))) is not None:
                    self._draft = compaction
                    await self._write(journal)
        except StorageError as error:
            log.warning("run %s: %d results not recorded yet: %s", self._run_name, len(tries), error)
            return storage_problem(error)
        return None

    def _is_due(self, count: int, *, at_once: bool) -> bool:
        now = time.monotonic()
        if not count:
            self._since = None
        elif self._since is None:
            self._since = now
        waits = 0.0 if self._since is None else now - self._since
        return count > 0 and (at_once or count >= BATCH_SIZE or waits >= BATCH_SECONDS)

    def due_in(self) -> float | None:
        """Seconds until results that wait should be written; None where none waits."""
        if self._since is None:
            return None
        return max(0.0, self._since + BATCH_SECONDS - time.monotonic())

    async def _write(self, journal: Journal) -> None:
        if self._draft is not None:
            await self._files.write(journal, self._draft)
            self._draft = None

    def _opened(self) -> Journal:
        if self._journal is None:
            raise RuntimeError("the journal is not open")
        return self._journal


def _damage(error: JournalError) -> Problem:
    return Problem(
        RunReason.JOURNAL_DAMAGED,
        f"{error}; no Job is made and none deleted before its objects are restored in S3: "
        "`assay journal verify` lists all that is wrong",
    )
