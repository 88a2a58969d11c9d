"""Starts and wakes the loops: one a run, one for Ledgers, one for AgentVariants."""

import asyncio
import logging
import time

from assay.adapters.kube import KubeError
from assay.adapters.list_watch import ListWatch
from assay.api.conditions import is_true
from assay.api.evaluation_run import EvaluationRun
from assay.api.evaluation_run_status import RunCondition
from assay.api.resource import Resource
from assay.core.observation import JobView, PodView
from assay.handlers.context import Context
from assay.handlers.housekeeping import Housekeeper
from assay.handlers.ledgers import LedgerKeeper
from assay.handlers.resources import KINDS, collection_path
from assay.handlers.run_loop import RunLoop
from assay.handlers.variants import VariantKeeper

log = logging.getLogger(__name__)

RELIST_SECONDS = 60.0
SILENT_WATCH_SECONDS = 300.0
STUCK_PASS_SECONDS = 600.0
"""Longer than a pass over a full run with a store that times out."""


class Supervisor:
    """Owns the loops. Nothing starts before `start`."""

    def __init__(self) -> None:
        self.context: Context | None = None
        self._loops: dict[str, RunLoop] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._watches: dict[tuple[str, str], ListWatch[JobView] | ListWatch[PodView]] = {}
        self._ledgers: LedgerKeeper | None = None
        self._variants: VariantKeeper | None = None
        self._restoring = asyncio.Semaphore(1)
        """A start with hundreds of ended runs must not hold all their records at once."""

    def start(
        self, context: Context, watches: dict[tuple[str, str], ListWatch[JobView] | ListWatch[PodView]]
    ) -> None:
        """Start the loops; the watches have shown everything that exists."""
        namespaces = context.settings.run_namespaces
        self._watches = watches
        self._ledgers = LedgerKeeper(context.client, context.library, context.cache, namespaces)
        self._variants = VariantKeeper(context.client, context.cache, namespaces)
        self._spawn(self._ledgers.run(), "ledgers")
        self._spawn(self._variants.run(), "variants")
        self._spawn(self._relist(context), "relist")
        keeper = Housekeeper(context)
        self._spawn(keeper.expire(), "expiry")
        self._spawn(keeper.sweep(), "sweep")
        self.context = context
        for namespace in namespaces:
            for run in context.cache.runs(namespace).values():
                self._ensure(run)

    def changed(self, plural: str, old: Resource | None, new: Resource | None) -> None:
        """A resource appeared, changed its spec, or went."""
        if self.context is None:
            return
        if self._ledgers and plural == "ledgers":
            self._ledgers.wake.set()
        if self._variants and plural == "agentvariants":
            self._variants.wake.set()
        if isinstance(old, EvaluationRun) and (new is None or new.metadata.uid != old.metadata.uid):
            # The loop of a run that has ended is gone and cannot do it.
            gone = old.metadata
            self.context.metrics.run_series.drop(gone.namespace, gone.name, gone.uid)
        if isinstance(new, EvaluationRun):
            self._ensure(new)
        about = new or old
        for loop in list(self._loops.values()):
            if about is not None and loop.namespace == about.metadata.namespace:
                loop.wake.set()

    def notify(self, run_uid: str, soon: bool) -> None:
        """A Job or pod of the run has changed; `soon` where that frees a slot."""
        loop = self._loops.get(run_uid)
        if loop is not None:
            loop.wake.set(soon=soon)

    def unhealthy(self) -> str:
        """Why the process should be restarted; empty while it works."""
        now = time.monotonic()
        for (namespace, resource), watch in self._watches.items():
            if now - watch.heard_at > SILENT_WATCH_SECONDS:
                return f"the watch of {resource} in {namespace} is silent for {now - watch.heard_at:.0f} s"
        for loop in self._loops.values():
            if now - loop.passed_at > STUCK_PASS_SECONDS:
                return f"the loop of run {loop.uid} has not passed for {now - loop.passed_at:.0f} s"
        return ""

    def measure(self) -> None:
        """Set the gauges that follow from the process's own state; called at each scrape."""
        if self.context is None:
            return
        now, metrics = time.monotonic(), self.context.metrics
        for (namespace, resource), watch in self._watches.items():
            metrics.watch_age.labels(namespace, resource).set(now - watch.heard_at)
        metrics.lease_held.set(self.context.lease.held)
        for namespace in self.context.settings.run_namespaces:
            runs = self.context.cache.runs(namespace).values()
            metrics.set_runs(namespace, [_state(run) for run in runs])

    def _ensure(self, run: EvaluationRun) -> None:
        assert self.context is not None
        if run.metadata.uid in self._loops:
            return
        loop = RunLoop(self.context, run)
        self._loops[run.metadata.uid] = loop
        self._spawn(self._run(loop), f"run {run.metadata.namespace}/{run.metadata.name}")

    async def _run(self, loop: RunLoop) -> None:
        try:
            await loop.run()
        finally:
            self._loops.pop(loop.uid, None)
        await loop.figures.restore(self._restoring)

    async def _relist(self, context: Context) -> None:
        while True:
            await asyncio.sleep(RELIST_SECONDS)
            try:
                await list_resources(context)
            except KubeError as error:
                log.warning("listing our resources: %s", error)

    def _spawn(self, coroutine: "asyncio._CoroutineLike[None]", name: str) -> None:
        task = asyncio.create_task(coroutine, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("%s ended with an error", task.get_name(), exc_info=task.exception())


async def list_resources(context: Context) -> None:
    """Read all our resources; what events were lost, this repairs. Raises KubeError."""
    for namespace in context.settings.run_namespaces:
        for plural in KINDS:
            found = await context.client.get(collection_path(plural, namespace))
            context.cache.replace_all(plural, namespace, found.get("items") or [])


def _state(run: EvaluationRun) -> str:
    conditions = run.status.conditions
    for condition, state in (
        (RunCondition.COMPLETE, "complete"),
        (RunCondition.FAILED, "failed"),
        (RunCondition.SUSPENDED, "suspended"),
        (RunCondition.PROGRESSING, "running"),
    ):
        if is_true(conditions, condition):
            return state
    return "waiting"
