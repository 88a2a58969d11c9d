"""Carry out what the core decided: make Jobs, write records on them, delete them. Each may be repeated.

Nothing here waits for an answer. What is under way is known, so that a pass does not begin it again.
"""

import asyncio
import logging
import time
from collections.abc import Sequence

from assay.adapters.kube import KubeError, KubeRefused, KubeUnavailable
from assay.adapters.kube_decode import decode_job
from assay.api.evaluation_run import EvaluationRun
from assay.api.evaluation_run_status import RunReason
from assay.api.labels import TRY_RECORD
from assay.api.outcome import OutcomeClass
from assay.core.actions import Action, CreateJob, DeleteJob, WriteRecord
from assay.core.attempt_pod import Images, RenderRefused, render_job
from assay.core.observation import JobView
from assay.core.plan import RunPlan
from assay.core.resolve import Problem
from assay.core.try_spec import make_try_spec
from assay.handlers.context import Context
from assay.handlers.errands import Errands
from assay.handlers.run_gather import Gatherer
from assay.handlers.wake import Wake

log = logging.getLogger(__name__)

AT_ONCE = 16
REFUSED_SECONDS = 10.0
SHOWN_SECONDS = 60.0
"""What a watch does not show so long after it was done is done again."""


class Applier:
    """Applies the decisions on one run. `problem` says why Jobs cannot be made, until one can."""

    def __init__(self, context: Context, gatherer: Gatherer, errands: Errands, wake: Wake) -> None:
        """`wake` is called for what another pass must look at."""
        self._context, self._gatherer = context, gatherer
        self._errands, self._wake = errands, wake
        self._limit, self._deletions = asyncio.Semaphore(AT_ONCE), asyncio.Semaphore(AT_ONCE)
        self._deleting: dict[str, float] = {}
        """Jobs that were deleted and that the watch may still show, by UID."""
        self._written: dict[str, tuple[OutcomeClass, float]] = {}
        """Classes of records that were written on Jobs and that the watch may not show yet, by UID."""
        self._paused_until, self._deletions_paused_until = 0.0, 0.0
        self._smooth = False
        """Whether the last Job that was to be made was made."""
        self.problem: Problem | None = None

    def create(
        self, run: EvaluationRun, plan: RunPlan, images: Images, creations: Sequence[CreateJob]
    ) -> None:
        """Make as many of the Jobs as the rate allows, unless the API server asked for a pause."""
        if time.monotonic() < self._paused_until:
            return
        granted = self._context.creation_rate.take(run.metadata.uid, len(creations))
        if granted:
            chosen = creations[:granted]
            # Live from now on: the next pass must neither make them again nor others in their slots.
            self._gatherer.making |= {one.name: one for one in chosen}
            self._errands.start(self._create_all(run, plan, images, chosen))

    async def _create_all(
        self, run: EvaluationRun, plan: RunPlan, images: Images, creations: Sequence[CreateJob]
    ) -> None:
        try:
            # What refuses one Job mostly refuses all: one alone shows whether it is over.
            first = () if self._smooth else creations[:1]
            made = [await self._create(run, plan, images, one) for one in first]
            if all(made):
                rest = creations[len(first) :]
                made += await asyncio.gather(*(self._create(run, plan, images, one) for one in rest))
        finally:
            for one in creations:
                self._gatherer.making.pop(one.name, None)
        self._smooth = all(made)
        if not self._smooth:
            self._wake.set(soon=False)

    def due_in(self, run: EvaluationRun, actions: Sequence[Action]) -> float | None:
        """Seconds until what could not be carried out now may be; None if nothing waits."""
        now, waits = time.monotonic(), []
        if any(isinstance(one, CreateJob) for one in actions):
            rate = self._context.creation_rate.due_in(run.metadata.uid)
            paused = self._paused_until - now
            waits += [max(rate or 0.0, paused)] if rate is not None or paused > 0 else []
        if any(isinstance(one, DeleteJob) for one in actions) and now < self._deletions_paused_until:
            waits.append(self._deletions_paused_until - now)
        return min(waits, default=None)

    def write(self, namespace: str, actions: Sequence[WriteRecord]) -> None:
        """Write records on their Jobs; what fails is decided anew in the next pass."""
        now = time.monotonic()
        self._written = {uid: one for uid, one in self._written.items() if one[1] > now}
        for one in actions:
            if self._written.get(one.job.uid, (None,))[0] is not one.record.outcome:
                self._written[one.job.uid] = (one.record.outcome, now + SHOWN_SECONDS)
                self._errands.start(self._write(namespace, one))

    def delete(self, namespace: str, actions: Sequence[DeleteJob]) -> None:
        """Delete Jobs whose result is durable, never behind creations; what fails is decided anew."""
        now = time.monotonic()
        self._deleting = {uid: until for uid, until in self._deleting.items() if until > now}
        if now < self._deletions_paused_until:
            return
        for one in actions:
            if one.job.uid not in self._deleting:
                self._deleting[one.job.uid] = now + SHOWN_SECONDS
                self._errands.start(self._delete(namespace, one.job))

    async def _delete(self, namespace: str, job: JobView) -> None:
        # Another Job of that name is not ours to delete. The watch shows that it is gone, mostly soon.
        body = {"propagationPolicy": "Background", "preconditions": {"uid": job.uid}}
        path = f"/apis/batch/v1/namespaces/{namespace}/jobs/{job.name}"
        async with self._deletions:
            if not self._context.lease.held or time.monotonic() < self._deletions_paused_until:
                self._deleting.pop(job.uid, None)
                return
            try:
                await self._context.client.request("DELETE", path, body)
            except KubeError as error:
                if not (isinstance(error, KubeRefused) and error.status == 404):
                    log.warning("Job %s not deleted: %s", job.name, error)
                    pause = error.retry_after if isinstance(error, KubeUnavailable) else REFUSED_SECONDS
                    self._deletions_paused_until = time.monotonic() + pause
                    self._deleting.pop(job.uid, None)
                    self._wake.set(soon=False)
                    return
        self._context.metrics.jobs_removed.inc()

    async def _create(self, run: EvaluationRun, plan: RunPlan, images: Images, action: CreateJob) -> bool:
        namespace = run.metadata.namespace
        async with self._limit:
            if not self._context.lease.held:
                return False  # another operator may be at work already
            try:
                spec = make_try_spec(run, plan, action.key, action.try_number, action.name, action.judged)
                body = render_job(run, plan, spec, images, self._gatherer.gateway_address)
                await self._context.client.request(
                    "POST", f"/apis/batch/v1/namespaces/{namespace}/jobs", body
                )
            except RenderRefused as error:
                return self._refused(Problem(RunReason.UNSUPPORTED, str(error)))
            except KubeRefused as error:
                if error.status == 409 and error.reason == "AlreadyExists":
                    return await self._adopt(run, action)
                return self._refused(_refusal(error))
            except KubeUnavailable as error:
                log.warning("run %s: Job %s not made: %s", run.metadata.name, action.name, error)
                self._context.creation_rate.pause(error.retry_after)
                if not error.untouched:
                    self._gatherer.doubtful[action.name] = action
                return False
        self._made(action)
        self._context.metrics.jobs_created.inc()
        log.info(
            "run %s: Job %s made: ledger %s, task %s, variant %s, repetition %d, try %d",
            run.metadata.name,
            action.name,
            *action.key,
            action.try_number,
        )
        return True

    async def _adopt(self, run: EvaluationRun, action: CreateJob) -> bool:
        """A Job of that name exists: ours if the run owns it, else a conflict that a person must end."""
        path = f"/apis/batch/v1/namespaces/{run.metadata.namespace}/jobs/{action.name}"
        try:
            _, job = decode_job(await self._context.client.request("GET", path))
        except KubeError as error:
            log.warning("run %s: Job %s exists and cannot be read: %s", run.metadata.name, action.name, error)
            self._gatherer.doubtful[action.name] = action
            return False
        if job.owner_uid == run.metadata.uid:
            self._made(action)
            return True
        log.error("run %s: Job %s exists and does not belong to the run", run.metadata.name, action.name)
        self._gatherer.conflicts.add(action.name)
        return True

    async def _write(self, namespace: str, action: WriteRecord) -> None:
        body: dict[str, object] = {
            "metadata": {
                "uid": action.job.uid,  # another Job of that name is a conflict, never patched
                "annotations": {TRY_RECORD: action.record.to_json()},
            }
        }
        if action.end:
            # The Job controller then stops the pod and keeps the Job, so that the record stays.
            body["spec"] = {"activeDeadlineSeconds": 1}
        record = action.record
        log.info(
            "Job %s: ledger %s, task %s, variant %s, repetition %d, try %d: %s%s: %s",
            record.job_name,
            *record.key,
            record.try_number,
            record.outcome.value,
            ", ended" if action.end else "",
            record.reason,
        )
        try:
            path = f"/apis/batch/v1/namespaces/{namespace}/jobs/{action.job.name}"
            await self._context.client.merge(path, body)
        except KubeError as error:
            log.warning("Job %s: record not written: %s", action.job.name, error)
            self._written.pop(action.job.uid, None)

    def _made(self, action: CreateJob) -> None:
        self.problem = None
        self._gatherer.conflicts.discard(action.name)
        self._gatherer.doubtful.pop(action.name, None)
        self._gatherer.posted[action.name] = (action, time.monotonic())

    def _refused(self, problem: Problem) -> bool:
        log.warning("Job refused: %s", problem.message)
        self.problem = problem
        self._paused_until = time.monotonic() + REFUSED_SECONDS
        return False


def _refusal(error: KubeRefused) -> Problem:
    if error.status == 403 and "exceeded quota" in str(error):
        return Problem(RunReason.WAITING_FOR_QUOTA, str(error))
    return Problem(RunReason.PODS_REFUSED, f"the API server refuses the Job: {error}")
