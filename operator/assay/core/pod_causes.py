"""What the kubelet's facts about a pod say on why it ended or why it does not start (cases.md BAR 4)."""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from assay.api.outcome import OutcomeClass
from assay.core.observation import (
    ENVIRONMENT,
    INJECT,
    RUNNER,
    VERIFIER,
    ContainerView,
    JobEvent,
    JobView,
    Phase,
    PodView,
)


class Waiting(StrEnum):
    """Why a live try does not work yet. None of these is an outcome: nothing is counted."""

    QUEUED = "Queued"
    QUOTA_BLOCKED = "QuotaBlocked"
    POD_REFUSED = "PodRefused"
    NO_POD = "NoPod"
    UNSCHEDULABLE = "Unschedulable"
    IMAGE_UNAVAILABLE = "ImageUnavailable"
    CONTAINER_NOT_CREATED = "ContainerNotCreated"
    POD_NOT_STARTED = "PodNotStarted"
    STARTING = "Starting"
    ENDING = "Ending"
    STUCK_TERMINATING = "StuckTerminating"


RUNNER_MEMORY_GIB = 1
"""What the runner's container may use."""

LATE_SECONDS = 60
"""A pod that has a node for so long and has started nothing is worth a question for its Events."""

ENDING = frozenset({Waiting.ENDING, Waiting.STUCK_TERMINATING})
"""Waits of tries that are over but for their pod."""


@dataclass(frozen=True, slots=True)
class Cause:
    """A class with the words that explain it."""

    outcome: OutcomeClass
    reason: str


@dataclass(frozen=True, slots=True)
class WaitingFor:
    """What a live try waits for. `since` is when the wait began; None where nothing limits it."""

    reason: Waiting
    message: str = ""
    since: datetime | None = None


_IMAGE_REASONS = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "ErrImageNeverPull",
        "ImageInspectError",
        "RegistryUnavailable",
        "SignatureValidationFailed",
    }
)
_CREATE_REASONS = frozenset(
    {
        "CreateContainerConfigError",
        "CreateContainerError",
        "RunContainerError",
        "PostStartHookError",
        "CrashLoopBackOff",
    }
)
# The kubelet writes this only of containers that use more than they requested.
_OVER_REQUEST = re.compile(r"Container (\S+) was using \S+, request is \S+")
_LOW_ON = re.compile(r"low on resource: ([a-z-]+)")
_DISK_CONTAINER = re.compile(r'[Cc]ontainer "?([a-z-]+)"? exceeded its local ephemeral storage limit')


def cause_of_end(pod: PodView) -> Cause | None:
    """Why an ended pod ended, as far as the cluster's own facts tell; None if they explain nothing."""
    return _taken_away(pod) or _evicted(pod) or _container_ended(pod) or _never_started(pod) or _deleted(pod)


def _taken_away(pod: PodView) -> Cause | None:
    target = pod.holds("DisruptionTarget")
    if target is None:
        return None
    words = f"{target.reason}: {target.message or pod.message}".strip(": ")
    over = _OVER_REQUEST.search(pod.message or target.message)
    if target.reason == "TerminationByKubelet" and over and over.group(1) == ENVIRONMENT:
        resource = _LOW_ON.search(pod.message or target.message)
        disk = resource is not None and resource.group(1) != "memory"
        return Cause(OutcomeClass.AGENT_DISK_EXCEEDED if disk else OutcomeClass.AGENT_OOM, words)
    return Cause(OutcomeClass.DISRUPTED, words)


def _evicted(pod: PodView) -> Cause | None:
    """Eviction without DisruptionTarget: the pod itself broke a limit that it was given."""
    if pod.reason != "Evicted":
        return None
    culprit = _DISK_CONTAINER.search(pod.message)
    if (culprit is None and not _verifies_only(pod)) or (culprit and culprit.group(1) == ENVIRONMENT):
        return Cause(OutcomeClass.AGENT_DISK_EXCEEDED, pod.message)
    if culprit is None or culprit.group(1) == VERIFIER:
        return Cause(OutcomeClass.VERIFIER_CRASH, pod.message)
    return Cause(OutcomeClass.UNRECOGNISED, pod.message)


def _verifies_only(pod: PodView) -> bool:
    """Whether the pod has no environment: it judges an earlier try's artefacts again, and no agent runs."""
    return ENVIRONMENT not in pod.containers and pod.container(VERIFIER).has_started


def _container_ended(pod: PodView) -> Cause | None:
    if pod.container(ENVIRONMENT).reason == "OOMKilled":
        return Cause(OutcomeClass.AGENT_OOM, "container environment was OOMKilled (memory limit)")
    if pod.container(RUNNER).restarts > 0:
        return Cause(OutcomeClass.RUNNER_RESTARTED, _restart_words(pod.container(RUNNER)))
    if pod.container(VERIFIER).reason == "OOMKilled":
        return Cause(OutcomeClass.VERIFIER_CRASH, "container verifier was OOMKilled (memory limit)")
    return None


def _never_started(pod: PodView) -> Cause | None:
    if pod.container(ENVIRONMENT).has_started or _verifies_only(pod):
        return None
    for name in (INJECT, RUNNER, ENVIRONMENT, VERIFIER):
        view = pod.container(name)
        if view.waiting_reason not in ("", "PodInitializing"):
            return Cause(OutcomeClass.INFRA_START, _waiting_words(view))
        if view.exit_code:
            return Cause(OutcomeClass.INFRA_START, _end_words(view))
    if pod.reason and not pod.gone:
        return Cause(OutcomeClass.INFRA_START, f"{pod.reason}: {pod.message}")
    return None


def _deleted(pod: PodView) -> Cause | None:
    if pod.gone and pod.phase not in (Phase.SUCCEEDED, Phase.FAILED):
        return Cause(OutcomeClass.DISRUPTED, "the pod was deleted before it had ended")
    return None


def waiting_for(job: JobView, pod: PodView | None, event: JobEvent | None) -> WaitingFor | None:
    """What a live try waits for; None while it works."""
    if job.suspended:
        return WaitingFor(Waiting.QUEUED, "the Job is suspended")
    if pod is None:
        return _waiting_for_pod(event)
    if pod.deleting or job.finished:
        return WaitingFor(Waiting.ENDING)
    scheduled = pod.conditions.get("PodScheduled")
    if scheduled and scheduled.status == "False":
        return WaitingFor(Waiting.UNSCHEDULABLE, scheduled.message, pod.created_at)
    return _waiting_for_container(pod, event)


def starts_late(job: JobView, pod: PodView, now: datetime) -> bool:
    """Whether the pod has started nothing for long, and nothing in its status says why."""
    if pod.ended or not pod.node:
        return False
    waiting = waiting_for(job, pod, None)
    if waiting is None or waiting.reason is not Waiting.STARTING:
        return False
    scheduled = pod.holds("PodScheduled")
    since = (scheduled.since if scheduled else None) or pod.created_at
    return now - since >= timedelta(seconds=LATE_SECONDS)


def _waiting_for_pod(event: JobEvent | None) -> WaitingFor:
    if event is None:
        return WaitingFor(Waiting.NO_POD)
    if "exceeded quota" in event.message:
        return WaitingFor(Waiting.QUOTA_BLOCKED, event.message)
    return WaitingFor(Waiting.POD_REFUSED, event.message)


def _waiting_for_container(pod: PodView, event: JobEvent | None) -> WaitingFor | None:
    environment = pod.container(ENVIRONMENT)
    verifier = pod.container(VERIFIER)
    # The verifier's own wait begins when the environment has ended; before that it waits by design.
    since = environment.finished_at if environment.finished_at else pod.created_at
    names = (VERIFIER,) if environment.has_started else (INJECT, RUNNER, ENVIRONMENT, VERIFIER)
    for name in names:
        view = pod.container(name)
        if view.waiting_reason in _IMAGE_REASONS:
            return WaitingFor(Waiting.IMAGE_UNAVAILABLE, _waiting_words(view), since)
        if view.waiting_reason in _CREATE_REASONS:
            return WaitingFor(Waiting.CONTAINER_NOT_CREATED, _waiting_words(view), since)
    if environment.has_started or verifier.has_started:
        return None
    if event is not None:
        return WaitingFor(Waiting.POD_NOT_STARTED, f"{event.reason}: {event.message}", pod.created_at)
    return WaitingFor(Waiting.STARTING, "", pod.created_at)


def _waiting_words(view: ContainerView) -> str:
    return f"container {view.name}: {view.waiting_reason}: {view.waiting_message}".rstrip(": ")


def _restart_words(runner: ContainerView) -> str:
    why = runner.restarted_for or "no reason given"
    if why != "OOMKilled":
        return f"container runner was restarted {runner.restarts} times after it had ended ({why})"
    return (
        f"container runner was OOMKilled: it used more than its memory limit of {RUNNER_MEMORY_GIB} GiB. "
        "Look at how much the agent leaves (artefacts, trajectory) and how large its model calls are"
    )


def _end_words(view: ContainerView) -> str:
    code = "" if view.exit_code is None else f" with exit code {view.exit_code}"
    again = f", restarted {view.restarts} times" if view.restarts else ""
    return f"container {view.name} ended{code}{again} ({view.reason or 'no reason given'})"
