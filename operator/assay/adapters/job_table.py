"""Jobs and pods of attempts as the watches show them, by run. One writer (the watches), many readers."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from assay.core.observation import JobView, PodView

Notify = Callable[[str, bool], None]
"""Told the UID of a run of which something has changed, and whether a slot of it has become free."""


@dataclass(slots=True)
class RunObjects:
    """What the watches show of one run. `vanished` are Jobs that were deleted: the reader takes them out."""

    jobs: dict[str, JobView] = field(default_factory=dict)
    pods: dict[str, dict[str, PodView]] = field(default_factory=dict)
    """By Job name, then by pod UID."""
    vanished: dict[str, JobView] = field(default_factory=dict)


class JobTable:
    """The table. `notify` is called after each change."""

    def __init__(self, notify: Notify) -> None:
        self._runs: dict[str, RunObjects] = defaultdict(RunObjects)
        self._forgotten: set[str] = set()
        self._notify = notify

    def of(self, run_uid: str) -> RunObjects:
        """Everything of one run."""
        return self._runs[run_uid]

    def forget(self, run_uid: str) -> None:
        """Drop a deleted run, and whatever is still heard of its Jobs while they go."""
        self._runs.pop(run_uid, None)
        self._forgotten.add(run_uid)

    def put_job(self, job: JobView) -> None:
        """A Job was added or changed."""
        if job.run_uid in self._forgotten:
            return
        objects = self._runs[job.run_uid]
        objects.jobs[job.name] = job
        objects.vanished.pop(job.name, None)
        self._notify(job.run_uid, False)

    def drop_job(self, job: JobView) -> None:
        """A Job was deleted. Its pods that are still there stay until they go."""
        if job.run_uid in self._forgotten:
            return
        objects = self._runs[job.run_uid]
        if objects.jobs.pop(job.name, None) is not None:
            objects.vanished[job.name] = job
        self._keep_pods(objects, job.name, lambda pod: not pod.gone)
        self._notify(job.run_uid, False)

    def put_pod(self, pod: PodView) -> None:
        """A pod was added or changed."""
        pod = self._remembering(pod)
        if pod.job_name and pod.run_uid not in self._forgotten:
            pods = self._runs[pod.run_uid].pods.setdefault(pod.job_name, {})
            before, pods[pod.uid] = pods.get(pod.uid), pod
            self._notify(pod.run_uid, pod.ended and not (before and before.ended))

    def _remembering(self, pod: PodView) -> PodView:
        objects = self._runs.get(pod.run_uid)
        before = objects.pods.get(pod.job_name, {}).get(pod.uid) if objects else None
        return pod if before is None else pod.remembering(before)

    def drop_pod(self, pod: PodView) -> None:
        """A pod was deleted: what was last seen of it tells why it ended, as long as its Job is there."""
        if pod.run_uid in self._forgotten:
            return
        objects = self._runs[pod.run_uid]
        if pod.job_name in objects.jobs:
            objects.pods.setdefault(pod.job_name, {})[pod.uid] = replace(pod, gone_at=datetime.now(UTC))
        else:
            self._keep_pods(objects, pod.job_name, lambda one: one.uid != pod.uid)
        self._notify(pod.run_uid, not pod.ended)

    def _keep_pods(self, objects: RunObjects, job_name: str, keep: Callable[[PodView], bool]) -> None:
        kept = {uid: pod for uid, pod in objects.pods.get(job_name, {}).items() if keep(pod)}
        if kept:
            objects.pods[job_name] = kept
        else:
            objects.pods.pop(job_name, None)
