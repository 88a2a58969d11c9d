"""Gather what the core needs to decide on one run. Everything kept here is a cache or can be asked again."""

import asyncio
import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import batched

from assay.adapters.kube import KubeError, KubeRefused
from assay.adapters.kube_decode import decode_job, decode_pod
from assay.adapters.s3 import StorageError
from assay.api.evaluation_run import EvaluationRun
from assay.api.evaluation_run_status import RunReason
from assay.api.labels import GATEWAY_SERVICE
from assay.core.actions import AskManifest, CreateJob
from assay.core.classify import lost, record_of_manifest
from assay.core.observation import JobView
from assay.core.pinned_run import PinnedRun
from assay.core.plan import RunLedger, RunPlan, make_plan
from assay.core.reconcile import Observed
from assay.core.record import AttemptKey, ManifestAbsent, ManifestAnswer, ManifestFound, TryRecord
from assay.core.resolve import Problem, Resolution, resolve
from assay.handlers.context import Context
from assay.handlers.ledgers import run_ledger
from assay.handlers.price_sheets import RunPrices
from assay.handlers.run_journal import RunJournal
from assay.handlers.start_events import StartEvents
from assay.handlers.storage import RunEvidence, storage_problem

log = logging.getLogger(__name__)

CHECK_SECONDS = 30.0
RECHECK_SECONDS = 5.0
"""Pause between checks of storage and gateway while they work, and while they do not."""
POSTED_SECONDS = 60.0
"""A Job that was made and that no watch shows for this long is made again: 409 tells if it is there."""
ASKED_AT_ONCE = 16


@dataclass(slots=True)
class _Check:
    """A check that is repeated now and then."""

    due: float = 0.0
    problem: Problem | None = None

    def done(self, problem: Problem | None) -> None:
        self.problem = problem
        self.due = time.monotonic() + (RECHECK_SECONDS if problem else CHECK_SECONDS)


class Gatherer:
    """What is known of one run: its plan, S3's answers, the cluster's state."""

    def __init__(self, context: Context, run: EvaluationRun) -> None:
        self._context = context
        self._namespace, self._uid = run.metadata.namespace, run.metadata.uid
        self.evidence = RunEvidence(context.store, run)
        self.journal = RunJournal(context, run)
        self.prices = RunPrices(context.client, context.store, run)
        self.answers: dict[tuple[str, str], ManifestAnswer] = {}
        self.posted: dict[str, tuple[CreateJob, float]] = {}
        self.making: dict[str, CreateJob] = {}
        """Jobs whose creation is under way."""
        self.doubtful: dict[str, CreateJob] = {}
        """Jobs whose creation was not answered: they may be there, and are live as long as nobody knows."""
        self.conflicts: set[str] = set()
        self._asking: set[tuple[str, str]] = set()
        """Of what S3 is being asked: Job name and pod UID."""
        self.gateway_address = ""
        self._storage, self._gateway = _Check(), _Check()
        self._found: dict[str, ManifestFound] = {}
        """Manifests of tries whose Job is gone, by Job name."""
        self._vanished: dict[str, JobView] = {}
        """Jobs that are gone as they were last seen, by name, until S3 has said what they left."""
        self._lost: dict[str, TryRecord] = {}
        """Records of tries whose Job is gone and that left no manifest, by Job name."""
        self._unsettled: dict[AttemptKey, CreateJob] = {}
        """Tries whose Job is gone and of which S3 has not been asked since."""
        self._asked: set[str] | None = None if run.status.started_at is None else set()
        """Jobs that are gone, if they were ever made, and left nothing in S3. An earlier operator process may
        have made some, so of a run that has started S3 is asked before a Job is made."""
        self._podless: set[str] = set()
        """Ended Jobs that have no pod, as the API server itself says."""
        self.start_events = StartEvents(context, self._namespace, self._uid)
        self._plan: tuple[object, RunPlan] | None = None

    async def resolution(self, run: EvaluationRun, *, fresh: bool = False) -> Resolution:
        """What the run's names stand for now; `fresh` reads the ledgers' sources again."""
        ledgers = self._context.cache.ledgers(self._namespace)
        contents: dict[str, RunLedger | Problem] = {}
        for reference in run.spec.ledgers:
            if reference.name in ledgers:
                ledger = ledgers[reference.name]
                contents[reference.name] = await run_ledger(self._context.library, ledger, fresh=fresh)
        return resolve(run, ledgers, contents, self._context.cache.variants(self._namespace))

    def plan(self, run: EvaluationRun, resolution: Resolution) -> RunPlan:
        """The plan, made anew only when something that it follows from has changed. Raises PlanRefused."""
        frozen = run.spec.model_copy(update={"suspend": False, "parallelism": 1})
        key = (
            frozen.model_dump_json(),
            tuple((one.uid, one.digest) for one in resolution.ledgers),
            tuple((one.uid, one.fingerprint) for one in resolution.variants),
        )
        if self._plan is None or self._plan[0] != key:
            self._plan = key, make_plan(run.spec, self._uid, resolution.ledgers, resolution.variants)
        return self._plan[1]

    async def hold(self) -> Problem | None:
        """Why no Job may be made: storage, the journal in it, or the gateway."""
        await self._check_storage()
        if self._storage.problem is None and (problem := await self.journal.open()) is not None:
            self._storage.done(problem)
        await self._settle_vanished()
        if self._gateway.due <= time.monotonic():
            self._gateway.done(await self._check_gateway())
        prices = await self.prices.check()
        return self._storage.problem or prices or self._gateway.problem

    @property
    def storage_problem(self) -> Problem | None:
        """Why the store cannot be used, as far as is known."""
        return self._storage.problem

    def storage_failed(self, problem: Problem) -> None:
        """The store failed: it is a hold until a check succeeds."""
        self._storage.done(problem)

    def observed(self, plan: RunPlan | PinnedRun) -> Observed:
        """The cluster's state and S3's answers."""
        objects = self._context.table.of(self._uid)
        self._forget(objects.jobs)
        return Observed(
            jobs=dict(objects.jobs),
            pods={name: tuple(pods.values()) for name, pods in objects.pods.items()},
            events=self.start_events.by_job,
            answers=self.answers,
            posted={name: made.key for name, (made, _) in self.posted.items()}
            | {name: made.key for name, made in (self.doubtful | self.making).items()},
            found=self._records_found(plan),
            asked=self._asked,
            # What was lost is nowhere but here: no further try before the journal holds it.
            unsettled=frozenset(self._unsettled) | {one.key for one in self._lost.values()},
            conflicts=frozenset(self.conflicts),
            podless=frozenset(self._podless),
        )

    def open_questions(self, actions: Iterable[AskManifest]) -> list[AskManifest]:
        """Those that are not being asked already."""
        return [one for one in actions if (one.name, one.pod_uid) not in self._asking]

    async def ask(self, actions: list[AskManifest]) -> None:
        """Ask S3 for the manifests; a store that fails is a hold, and the question stays open."""
        names = {(one.name, one.pod_uid) for one in actions}
        self._asking |= names
        try:
            for some in batched(actions, ASKED_AT_ONCE, strict=False):
                if self._storage.problem is not None:
                    return
                answers = await asyncio.gather(*(self._ask(one) for one in some))
                for action, answer in zip(some, answers, strict=True):
                    if answer is not None:
                        self._take_answer(action, answer)
        finally:
            self._asking -= names

    def _take_answer(self, action: AskManifest, answer: ManifestAnswer) -> None:
        if action.name in self._context.table.of(self._uid).jobs:
            place = (action.name, action.pod_uid)
            if isinstance(answer, ManifestAbsent):
                answer = answer.after(self.answers.get(place))
            self.answers[place] = answer
        elif isinstance(answer, ManifestFound):
            self._found[action.name] = answer
        elif self._asked is not None:
            self._asked.add(action.name)

    async def look_for_pods(self) -> None:
        """Ask for the pods of ended Jobs that no watch has shown: it may be behind the watch of Jobs."""
        objects = self._context.table.of(self._uid)
        self._podless &= objects.jobs.keys()
        known = (objects.pods, self._podless, self.journal.records)
        unsure = [
            name
            for name, job in objects.jobs.items()
            if job.finished and not any(name in one for one in known)
        ]
        for some in batched(unsure, ASKED_AT_ONCE, strict=False):
            await asyncio.gather(*(self._look_for_pods(name) for name in some))

    async def _look_for_pods(self, job_name: str) -> None:
        path = f"/api/v1/namespaces/{self._namespace}/pods"
        selector = {"labelSelector": f"batch.kubernetes.io/job-name={job_name}"}
        try:
            found = [
                decode_pod(raw)[1]
                async for page in self._context.client.pages(path, selector)
                for raw in page.items or ()
            ]
        except KubeError as error:
            log.warning("pods of Job %s: %s", job_name, error)
            return
        if not found:
            self._podless.add(job_name)
        for pod in found:
            if pod.ended:  # one that has not ended is left to the watch, which also tells when it goes
                self._context.table.put_pod(pod)

    async def look_for_jobs(self) -> None:
        """Ask for the Jobs whose creation was not answered: one that nobody counts would be one too many."""
        for some in batched(list(self.doubtful.values()), ASKED_AT_ONCE, strict=False):
            await asyncio.gather(*(self._look_for_job(one) for one in some))

    async def _look_for_job(self, made: CreateJob) -> None:
        path = f"/apis/batch/v1/namespaces/{self._namespace}/jobs/{made.name}"
        try:
            _, job = decode_job(await self._context.client.request("GET", path))
        except KubeError as error:
            if isinstance(error, KubeRefused) and error.status == 404:
                self.doubtful.pop(made.name, None)
            else:
                log.warning("Job %s, whose creation was not answered: %s", made.name, error)
            return
        self.doubtful.pop(made.name, None)
        if job.owner_uid == self._uid:
            self.posted[made.name] = (made, time.monotonic())

    def _forget(self, jobs: dict[str, JobView]) -> None:
        """Drop what no longer says anything."""
        oldest = time.monotonic() - POSTED_SECONDS
        self.doubtful = {name: made for name, made in self.doubtful.items() if name not in jobs}
        for name, (made, when) in list(self.posted.items()):
            if name in jobs:
                del self.posted[name]
            elif when < oldest:
                # Made and never seen: it may have come and gone while the watch was away.
                del self.posted[name]
                self._unsettled[made.key] = made
        for name, pod_uid in [key for key in self.answers if key[0] not in jobs]:
            answer = self.answers.pop((name, pod_uid))
            if isinstance(answer, ManifestFound):
                # The Job is gone, its result is not.
                self._found.setdefault(name, answer)

    async def _ask(self, action: AskManifest) -> ManifestAnswer | None:
        try:
            return await self.evidence.manifest_of(action.key, action.try_number, action.name, action.pod_uid)
        except StorageError as error:
            self._storage.done(storage_problem(error))
            return None

    async def _check_storage(self) -> None:
        if self._storage.due <= time.monotonic():
            self._storage.done(await self.evidence.check())

    def _records_found(self, plan: RunPlan | PinnedRun) -> dict[str, TryRecord]:
        """Records of tries whose Job is gone and that the journal does not hold yet."""
        self._found = {name: one for name, one in self._found.items() if name not in self.journal.records}
        self._lost = {name: one for name, one in self._lost.items() if name not in self.journal.records}
        if not self._found:
            return self._lost
        planned = plan if isinstance(plan, PinnedRun) else frozenset(plan.attempts)
        return self._lost | {
            name: record_of_manifest(found, plan.terms(key))
            for name, found in self._found.items()
            if (key := AttemptKey.of(found.manifest.identity)) in planned
        }

    async def _settle_vanished(self) -> None:
        """Ask S3 for the results of Jobs that were deleted, once nothing of their pods runs any more."""
        objects = self._context.table.of(self._uid)
        for name, job in list(objects.vanished.items()):
            del objects.vanished[name]
            self.posted.pop(name, None)
            self.doubtful.pop(name, None)
            if name in self.journal.records:
                continue
            try:
                key = AttemptKey.parse(job.attempt_key)
            except ValueError:
                log.warning("Job %s had no readable attempt key: ignored", name)
                continue
            self._unsettled[key] = CreateJob(key, job.try_number, name)
            self._vanished[name] = job
        for key, made in list(self._unsettled.items()):
            if made.name in objects.pods:
                continue
            answer = await self._ask(AskManifest(key, made.try_number, made.name, ""))
            if answer is not None and await self._is_ours():
                del self._unsettled[key]
                self._take_remains(made.name, answer)

    def _take_remains(self, name: str, answer: ManifestAnswer) -> None:
        """Keep what a Job that is gone came to: what S3 has of it, else that it was lost."""
        job = self._vanished.pop(name, None)
        if isinstance(answer, ManifestFound):
            self._found[name] = answer
            return
        self._context.metrics.jobs_vanished.inc()
        log.warning("Job %s is gone and left no result", name)
        # One that was suspended had started nothing, and of one that no watch ever showed nothing is known:
        # the same try is made again.
        if job is not None and not job.suspended:
            self._lost[name] = lost(job, answer, datetime.now(UTC))

    async def _is_ours(self) -> bool:
        """Whether this process is the journal's writer: another may have recorded the Job and deleted it."""
        try:
            await self.journal.confirm()
        except StorageError as error:
            self._storage.done(storage_problem(error))
            return False
        return True

    async def _check_gateway(self) -> Problem | None:
        path = f"/api/v1/namespaces/{self._namespace}/services/{GATEWAY_SERVICE}"
        try:
            service = await self._context.client.get(path)
        except KubeRefused as error:
            return Problem(
                RunReason.WAITING_FOR_GATEWAY,
                f"Service {GATEWAY_SERVICE} in namespace {self._namespace}: {error}: add the namespace to "
                "runNamespaces of the Helm release",
            )
        except KubeError as error:
            return Problem(RunReason.WAITING_FOR_GATEWAY, str(error))
        address = (service.get("spec") or {}).get("clusterIP")
        if not address or address == "None":
            return Problem(
                RunReason.WAITING_FOR_GATEWAY,
                f"Service {GATEWAY_SERVICE} in namespace {self._namespace} has no ClusterIP",
            )
        self.gateway_address = str(address)
        return None
