"""What the metrics show of a run: kept up by its loop, or read once where it ended in an earlier process."""

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping

from pydantic import ValidationError

from assay.adapters.journal_store import LAST_EPOCH, JournalStore
from assay.adapters.run_metrics import WORKING, RunView
from assay.adapters.s3 import NoSuchKey, StorageError
from assay.api.evaluation_run import EvaluationRun
from assay.api.evaluation_run_status import Report as ReportPlace
from assay.api.report import Report
from assay.core.canonical import digest_of_bytes
from assay.core.names import journal_prefix
from assay.core.reconcile import Decision
from assay.core.record import TryRecord
from assay.core.report_series import report_series
from assay.core.run_totals import RunTotals
from assay.core.segments import JournalError
from assay.core.status import is_finished
from assay.core.try_spec import storage_of
from assay.handlers.context import Context

log = logging.getLogger(__name__)

TAKEN_AT_ONCE = 2000
"""More records than this are counted in a thread, so that other runs' loops go on."""
STORE_AWAY_SECONDS = 60.0
LARGEST_REPORT = 64 << 20


class RunFigures:
    """The figures of one run. Nothing is shown before the first call."""

    def __init__(self, context: Context, run: EvaluationRun) -> None:
        self._context, self._view = context, RunView(run)

    def show(self, run: EvaluationRun) -> None:
        """Show what the status says; figures from elsewhere stay as they are."""
        self._view.run = run
        if is_finished(run):
            self._view.live, self._view.unrecorded, self._view.unrecorded_since = Counter(), 0, None
            if self._view.totals is not None:
                self._view.totals.freeze()
        self._context.metrics.run_series.show(self._view)

    async def follow(
        self, run: EvaluationRun, decision: Decision, records: Mapping[str, TryRecord], report: Report | None
    ) -> None:
        """Show what a pass found; `records` are those of the journal."""
        view = self._view
        view.live = Counter(one.waiting.reason.value if one.waiting else WORKING for one in decision.live)
        # The pass may have recorded some of what it had found unrecorded.
        waiting = [one for one in decision.unrecorded if one.job_name not in records]
        view.unrecorded = len(waiting)
        view.unrecorded_since = min((one.ended_at for one in waiting), default=None)
        if report is not None:
            view.report = report_series(report)
        await self._take(records)
        self.show(run)

    async def restore(self, one_at_a_time: asyncio.Semaphore) -> None:
        """Read the figures of a run that has ended; nothing to do where this process saw it end.

        Waits for a store that is away. What cannot be read is logged and not shown.
        """
        run = self._view.run
        while self._view.totals is None and self._is_shown() and is_finished(run):
            try:
                async with one_at_a_time:
                    await self._read(run)
                return
            except StorageError as error:
                log.warning("run %s: its figures are not shown yet: %s", run.metadata.name, error)
                await asyncio.sleep(STORE_AWAY_SECONDS)
            except (JournalError, ValidationError) as error:
                log.warning("run %s: its figures are not shown: %s", run.metadata.name, error)
                return

    async def _read(self, run: EvaluationRun) -> None:
        prefix = journal_prefix(storage_of(run), run.metadata.uid)
        files = JournalStore(self._context.store, storage_of(run).bucket, prefix, run.metadata.uid)
        journal = await files.load(LAST_EPOCH)
        if run.status.report is not None:
            self._view.report = report_series(await self._report(run.status.report))
        await self._take(journal.records)
        if self._is_shown():
            self.show(run)

    async def _report(self, place: ReportPlace) -> Report:
        try:
            content = await self._context.store.get_bytes(place.bucket, place.key, LARGEST_REPORT)
        except NoSuchKey as error:
            raise JournalError(f"the report is gone: {error}") from error
        if digest_of_bytes(content) != place.digest:
            raise JournalError(f"{place.key} is not the report that the status names")
        return await asyncio.to_thread(Report.model_validate_json, content)

    async def _take(self, records: Mapping[str, TryRecord]) -> None:
        totals = self._view.totals or RunTotals(self._view.run.spec)
        if totals.outstanding(records) > TAKEN_AT_ONCE:
            await asyncio.to_thread(totals.take, records)
        else:
            totals.take(records)
        self._view.totals = totals

    def _is_shown(self) -> bool:
        """False once the run is deleted, or goes on in a new loop with figures of its own."""
        return self._context.metrics.run_series.shows(self._view)
