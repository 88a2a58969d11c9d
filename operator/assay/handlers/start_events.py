"""Why tries do not start where only Events say it: a Job has no pod, or a pod has a node and starts nothing.

Events are not watched: most of a cluster's are about what goes well. One list answers for all Jobs of a
namespace that have no pod, and one each for pods that have waited for long.
"""

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from assay.adapters.kube import KubeError
from assay.adapters.kube_decode import decode_events
from assay.core.observation import JobEvent, JobView, PodView
from assay.core.pod_causes import starts_late
from assay.core.reconcile import pod_that_counts
from assay.handlers.context import Context

log = logging.getLogger(__name__)

NO_POD_SECONDS = 3
EVENTS_SECONDS = 10.0
PODS_AT_ONCE = 16
STANDS_SECONDS = 180
"""The kubelet repeats what still fails at least every two minutes; an older Event is no cause any more."""
_NOT_THE_KUBELETS = frozenset({"FailedScheduling"})
"""The scheduler said so before it had found the node; the pod's condition tells it anyway."""


class StartEvents:
    """The newest Warning Events about tries of one run that do not start."""

    def __init__(self, context: Context, namespace: str, run_uid: str) -> None:
        self._context, self._namespace, self._uid = context, namespace, run_uid
        self.by_job: Mapping[str, JobEvent] = {}
        """By the name of the Job that they explain."""
        self._of_jobs: dict[str, JobEvent] = {}
        self._of_pods: dict[str, JobEvent] = {}
        self._asked_at: dict[str, float] = {}
        """When the Events of a pod were last asked for, by the pod's UID."""
        self._due = 0.0

    async def learn(self) -> None:
        """Ask, if anything waits for long; what the API server does not answer stays as it was known."""
        objects, now = self._context.table.of(self._uid), datetime.now(UTC)
        without = [one for one in objects.jobs.values() if _has_no_pod(one, objects.pods, now)]
        late = [
            pod
            for job in objects.jobs.values()
            if (pod := pod_that_counts(tuple(objects.pods.get(job.name, {}).values())))
            and starts_late(job, pod, now)
        ]
        if (without or late) and self._due <= time.monotonic():
            self._due = time.monotonic() + EVENTS_SECONDS
            await self._ask(bool(without), late, now)
        jobs, pods = {one.name for one in without}, {one.job_name for one in late}
        self._of_jobs = {name: event for name, event in self._of_jobs.items() if name in jobs}
        self._of_pods = {name: event for name, event in self._of_pods.items() if name in pods}
        self.by_job = self._of_jobs | self._of_pods

    async def _ask(self, without: bool, late: Sequence[PodView], now: datetime) -> None:
        if without:
            found = await self._list("involvedObject.kind=Job,reason=FailedCreate")
            self._of_jobs = self._of_jobs if found is None else found
        self._asked_at = {one.uid: self._asked_at.get(one.uid, 0.0) for one in late}
        first = sorted(late, key=lambda one: self._asked_at[one.uid])[:PODS_AT_ONCE]
        await asyncio.gather(*(self._ask_about(pod, now) for pod in first))

    async def _ask_about(self, pod: PodView, now: datetime) -> None:
        self._asked_at[pod.uid] = time.monotonic()
        found = await self._list(
            f"involvedObject.kind=Pod,involvedObject.uid={pod.uid},type=Warning",
            now - timedelta(seconds=STANDS_SECONDS),
        )
        if found is None:
            return
        event = found.get(pod.name)
        if event is None:
            self._of_pods.pop(pod.job_name, None)
        else:
            self._of_pods[pod.job_name] = event

    async def _list(self, selector: str, since: datetime | None = None) -> dict[str, JobEvent] | None:
        """The newest Event of each object, by its name; None where there was no answer."""
        parameters = {"fieldSelector": selector, "limit": "500"}
        path = f"/api/v1/namespaces/{self._namespace}/events"
        try:
            raw = await self._context.client.request("GET", path, parameters=parameters)
        except KubeError as error:
            log.warning("events of namespace %s: %s", self._namespace, error)
            return None
        return decode_events(raw, since=since, without=_NOT_THE_KUBELETS)


def _has_no_pod(job: JobView, pods: Mapping[str, object], now: datetime) -> bool:
    oldest = now - timedelta(seconds=NO_POD_SECONDS)
    return job.name not in pods and not job.finished and job.created_at < oldest
