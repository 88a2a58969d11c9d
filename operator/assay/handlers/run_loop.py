"""One loop a run: gather, let the core decide, apply, tell. Woken by events, correct without any of them."""

import asyncio
import logging
import time
from dataclasses import replace
from datetime import UTC, datetime

from assay.adapters.journal_store import JournalSuperseded
from assay.adapters.s3 import StorageError
from assay.api.evaluation_run import EvaluationRun, SuspendPolicy
from assay.api.evaluation_run_status import ResolvedImages
from assay.core.actions import AskManifest, CreateJob, DeleteJob, WriteRecord
from assay.core.attempt_pod import Images
from assay.core.packed_tries import tries_since
from assay.core.pinned_run import PinnedRun, Settled, rules_problem, settle
from assay.core.plan import PlanRefused, RunPlan
from assay.core.reconcile import Decision, Desired, reconcile
from assay.core.resolve import Problem, Resolution, resolved_status
from assay.core.standing import Standing
from assay.core.status import Findings, is_finished
from assay.core.suspension import resumed_at, stands_still
from assay.core.written_report import WrittenReport
from assay.handlers.context import Context
from assay.handlers.errands import Errands
from assay.handlers.run_apply import Applier
from assay.handlers.run_costs import RunCosts
from assay.handlers.run_figures import RunFigures
from assay.handlers.run_gather import Gatherer
from assay.handlers.run_report import KnownOfRun, RunReporter
from assay.handlers.run_status import RunStatus
from assay.handlers.storage import storage_problem
from assay.handlers.wake import Wake

log = logging.getLogger(__name__)

SHORTEST_PAUSE_SECONDS = 0.02
ERROR_SECONDS = 5.0
JOURNAL = "journal"
"""Name of the request that writes the journal: one is under way at a time."""


class RunLoop:
    """The loop of one run. `run` returns when the run has ended or is gone."""

    def __init__(self, context: Context, run: EvaluationRun) -> None:
        self._context = context
        self.namespace, self._name = run.metadata.namespace, run.metadata.name
        self.uid = run.metadata.uid
        self.wake = Wake(context.metrics.reconcile_lag_seconds.observe)
        self.passed_at = time.monotonic()
        """When the last pass ended."""
        self._errands = Errands(self._name)
        self._status = RunStatus(context, run, self._errands)
        self._gatherer = Gatherer(context, run)
        self._applier = Applier(context, self._gatherer, self._errands, self.wake)
        self._reporter = RunReporter(context.store, run)
        self._costs = RunCosts(self._reporter)
        self._standing = Standing()
        self.figures = RunFigures(context, run)

    async def run(self) -> None:
        """Until the run has ended or is gone."""
        try:
            await self._passes()
        finally:
            await self._errands.abandon()

    async def _passes(self) -> None:
        while True:
            self.wake.clear()
            begun = time.thread_time()
            try:
                pause = await self._pass()
            except JournalSuperseded as error:
                log.error(
                    "run %s/%s: %s: this process leaves the run alone", self.namespace, self._name, error
                )
                return
            except Exception:
                # A bug in one run must neither spin nor end the loops of the others.
                log.exception("run %s/%s: the pass failed", self.namespace, self._name)
                pause = ERROR_SECONDS
            computed, self.passed_at = time.thread_time() - begun, time.monotonic()
            if pause is None:
                return
            # Events come in bursts: one pass serves many, the more the longer a pass computes. What it only
            # waited for costs nothing, and a slot must not stay empty for it.
            rest = min(pause, max(SHORTEST_PAUSE_SECONDS, computed))
            await asyncio.sleep(rest)
            await self.wake.wait(pause - rest)

    async def _pass(self) -> float | None:
        """One pass; seconds until the next one at the latest, None when there is none."""
        self._errands.check()
        seen = self._context.cache.runs(self.namespace).get(self._name)
        if seen is None or seen.metadata.uid != self.uid:
            self._forget()
            return None
        if self._status.in_doubt and not await self._status.read_back(seen):
            return ERROR_SECONDS
        run = seen.model_copy(update={"status": self._status.held})
        self.figures.show(run)
        if is_finished(run):
            return None
        with self._context.metrics.reconcile_seconds.time():
            return await self._reconcile(run)

    async def _reconcile(self, run: EvaluationRun) -> float | None:
        resolution = await self._gatherer.resolution(run)
        hold = await self._gatherer.hold()
        await self._gatherer.start_events.learn()
        await self._gatherer.look_for_pods()
        await self._gatherer.look_for_jobs()
        try:
            plan = self._gatherer.plan(run, resolution) if resolution.complete else None
        except PlanRefused as refused:
            await self._status.tell(run, self._findings(resolution, refused=refused))
            return ERROR_SECONDS
        if plan is None or not self._gatherer.journal.is_open:
            # Without the journal it is not known what is recorded: nothing is decided.
            await self._status.tell(run, self._findings(resolution, hold=hold))
            return self._settle(run, None)
        if (other := rules_problem(run)) is not None:
            await self._status.tell(run, self._findings(resolution, hold=other, plan=plan))
            return self._settle(run, plan)
        return await self._decide(run, resolution, plan, hold)

    def _settle(self, run: EvaluationRun, plan: RunPlan | None) -> float:
        """Record what the last tries of a run come to that makes no more; seconds until the next pass."""
        pause = self._context.settings.resync_seconds
        pinned, journal = PinnedRun.of(run), self._gatherer.journal
        if pinned is None or journal.head is None or self._gatherer.storage_problem is not None:
            return pause
        now = datetime.now(UTC)
        settled = settle(pinned, journal.records, self._gatherer.observed(pinned), now)
        due = journal.due_in()
        if (settled.unrecorded or due is not None) and not self._errands.busy(JOURNAL):
            self._errands.start(self._record(run, plan, settled), JOURNAL)
        self._about_tries(settled)
        wake = (settled.wake_at - now).total_seconds() if settled.wake_at is not None else pause
        return max(SHORTEST_PAUSE_SECONDS, min(pause, wake, pause if due is None else due))

    async def _decide(
        self, run: EvaluationRun, resolution: Resolution, plan: RunPlan, hold: Problem | None
    ) -> float | None:
        now = datetime.now(UTC)
        desired = Desired(
            run_uid=self.uid,
            plan=plan,
            parallelism=run.spec.parallelism,
            suspend=run.spec.suspend or stands_still(run),
            stop=run.spec.suspend and run.spec.suspend_policy is SuspendPolicy.STOP,
            budget=run.spec.budget,
            hold=hold.message if hold else "",
            resumed_at=resumed_at(run, now),
            rounds=1 + run.spec.retry.unscored_only,
        )
        report: WrittenReport | Problem | None = None
        recorded, observed = self._gatherer.journal.records, self._gatherer.observed(plan)
        decision = reconcile(desired, recorded, observed, now, self._standing)
        if decision.finished:
            await self._errands.finish(JOURNAL)  # its last segment is the one that the report names
            # A result stands on the ledger as it lies there now, not as it was read before the first Job.
            again = await self._gatherer.resolution(run, fresh=True)
            if not again.complete:
                await self._status.tell(run, self._findings(again, hold=hold))
                return self._context.settings.resync_seconds
            report = await self._write_report(run, plan, decision)
            hold = report if isinstance(report, Problem) else hold
        creations = [one for one in decision.actions if isinstance(one, CreateJob)]
        starts = bool(creations) and run.status.started_at is None
        findings = self._findings(
            resolution, hold=hold or self._applier.problem, plan=plan, decision=decision, starts=starts
        )
        findings = replace(
            findings,
            report=report if isinstance(report, WrittenReport) else None,
            report_outstanding=isinstance(report, Problem),
        )
        pause = await self._status.tell(run, findings, wait=starts or decision.finished)
        if starts and self._status.held.started_at is None:
            return ERROR_SECONDS  # nothing is made before the start is on record
        await self._act(run.model_copy(update={"status": self._status.held}), plan, decision, creations)
        await self.figures.follow(
            run.model_copy(update={"status": self._status.held}),
            decision,
            self._gatherer.journal.records,
            findings.report.report if findings.report else None,
        )
        return self._pause(run, decision, pause, now)

    async def _write_report(
        self, run: EvaluationRun, plan: RunPlan, decision: Decision
    ) -> WrittenReport | Problem:
        ledgers = self._context.cache.ledgers(self.namespace)
        times = {name: ledgers[name].status.frozen_at for name in plan.ledgers if name in ledgers}
        frozen = {name: at for name, at in times.items() if at is not None}
        try:
            problem = await self._gatherer.prices.check()
            if problem is not None:
                return problem
            known = KnownOfRun(frozen, self._gatherer.journal.head, self._gatherer.prices.prices)
            return await self._reporter.write(run, plan, decision, known)
        except StorageError as error:
            return storage_problem(error)

    async def _act(
        self, run: EvaluationRun, plan: RunPlan, decision: Decision, creations: list[CreateJob]
    ) -> None:
        # None waits for another: a free slot is filled while S3 is asked what came of the try before.
        unsettled = creations or decision.unrecorded or self._gatherer.journal.due_in() is not None
        if unsettled and await self._has_begun(run, plan):
            self._create(run, plan, creations)
            if not self._errands.busy(JOURNAL):
                self._errands.start(self._record(run, plan, decision), JOURNAL)
        self._about_tries(decision)

    def _about_tries(self, decided: Decision | Settled) -> None:
        """What is to be done about tries that exist."""
        records = [one for one in decided.actions if isinstance(one, WriteRecord)]
        deletions = [one for one in decided.actions if isinstance(one, DeleteJob)]
        questions = [one for one in decided.actions if isinstance(one, AskManifest)]
        self._applier.write(self.namespace, records)
        self._applier.delete(self.namespace, deletions)
        if opened := self._gatherer.open_questions(questions):
            self._errands.start(self._ask(opened))

    async def _ask(self, questions: list[AskManifest]) -> None:
        await self._gatherer.ask(questions)
        self.wake.set(soon=False)

    async def _has_begun(self, run: EvaluationRun, plan: RunPlan) -> bool:
        """Whether the journal says what the run measures: it does so before the first Job."""
        if self._gatherer.storage_problem is not None:
            return False
        problem = await self._gatherer.journal.begin(run, plan)
        if problem is not None:
            self._gatherer.storage_failed(problem)
        return problem is None

    def _create(self, run: EvaluationRun, plan: RunPlan, creations: list[CreateJob]) -> None:
        resolved = run.status.resolved
        if creations and resolved is not None and resolved.images is not None:
            images = Images(resolved.images.runner, resolved.images.sandboxd)
            self._applier.create(run, plan, images, creations)

    async def _record(self, run: EvaluationRun, plan: RunPlan | None, decision: Decision | Settled) -> None:
        """Make results durable. While the store is away they stay where they are: on Jobs, pods and in S3."""
        journal = self._gatherer.journal
        before = len(journal.records)
        try:
            prices = self._gatherer.prices.prices
            tries = await self._costs.priced(run, plan, prices, decision.unrecorded)
            problem = await journal.record(tries, at_once=not decision.live)
        except StorageError as error:
            problem = storage_problem(error)
        except JournalSuperseded as error:
            self._errands.fatal(error)
            self.wake.set()
            return
        if problem is not None:
            self._gatherer.storage_failed(problem)
            self.wake.set(soon=False)
        for record in tries_since(journal.records, before):
            log.info(
                "run %s: Job %s recorded: ledger %s, task %s, variant %s, repetition %d, try %d: %s: %s",
                self._name,
                record.job_name,
                *record.key,
                record.try_number,
                record.outcome.value,
                record.reason,
            )
        if len(journal.records) != before:
            self.wake.set()
        elif problem is None and (due := journal.due_in()) is not None:
            await asyncio.sleep(due)  # others may join the segment
            self.wake.set()

    def _findings(
        self,
        resolution: Resolution,
        *,
        hold: Problem | None = None,
        refused: PlanRefused | None = None,
        plan: RunPlan | None = None,
        decision: Decision | None = None,
        starts: bool = False,
    ) -> Findings:
        settings = self._context.settings
        prices = self._gatherer.prices.prices
        images = ResolvedImages(runner=settings.runner_image, sandboxd=settings.sandboxd_image)
        return Findings(
            ledgers=resolution.ledger_problem,
            variants=resolution.variant_problem,
            hold=hold,
            refused=refused,
            plan=plan,
            decision=decision,
            resolved=resolved_status(resolution, images, prices.digest if prices else None)
            if starts
            else None,
        )

    def _pause(self, run: EvaluationRun, decision: Decision, put_off: float | None, now: datetime) -> float:
        if decision.finished and put_off is None:
            return SHORTEST_PAUSE_SECONDS
        pause = self._context.settings.resync_seconds
        # While the store is away its next check wakes nobody: the resync does. A segment under way wakes us.
        writes = self._gatherer.storage_problem is None and not self._errands.busy(JOURNAL)
        segment = self._gatherer.journal.due_in() if writes else None
        for due in (put_off, segment, self._applier.due_in(run, decision.actions)):
            pause = pause if due is None else min(pause, due)
        if decision.wake_at is not None:
            pause = min(pause, (decision.wake_at - now).total_seconds())
        return max(SHORTEST_PAUSE_SECONDS, pause)

    def _forget(self) -> None:
        log.info("run %s/%s is gone", self.namespace, self._name)
        self._context.metrics.run_series.drop(self.namespace, self._name, self.uid)
        self._context.table.forget(self.uid)
