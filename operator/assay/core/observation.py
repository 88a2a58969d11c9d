"""What the core sees of Jobs and pods: the few fields that decide something, decoded once.

Adapters build these from the API server's JSON. All times are aware and in UTC.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

INJECT = "inject"
RUNNER = "runner"
ENVIRONMENT = "environment"
VERIFIER = "verifier"
"""Names of the attempt pod's containers (design §5)."""


class Phase(StrEnum):
    """Phase of a pod. In separate mode the agent works while it still says Pending."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True)
class ContainerView:
    """State of one container, an init container or a main one."""

    name: str
    waiting_reason: str = ""
    waiting_message: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None
    exit_code: int | None = None
    """None as long as the container has not terminated."""
    reason: str = ""
    message: str = ""
    """Termination message, or the kubelet's words on why the container ended."""
    restarts: int = 0
    restarted_for: str = ""
    """The kubelet's reason why it ended before its last restart."""
    image_id: str = ""

    @property
    def has_started(self) -> bool:
        """Whether the container's process ever ran."""
        return self.started_at is not None or self.restarts > 0


@dataclass(frozen=True, slots=True)
class ConditionView:
    """A condition of a Job or pod."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class PodView:
    """One pod of an attempt's Job."""

    name: str
    uid: str
    job_name: str
    run_uid: str
    created_at: datetime
    attempt_key: str = ""
    phase: Phase = Phase.PENDING
    reason: str = ""
    message: str = ""
    node: str = ""
    deleting: bool = False
    gone_by: datetime | None = None
    """When a pod that is being deleted should be gone: its grace period is over then."""
    gone_at: datetime | None = None
    """When it was noticed that the API server no longer has the pod; this is the last that was seen of it."""
    rendered_digest: str = ""
    """Digest of the fields that must be as they were rendered: see `rendered_digest`."""
    containers: Mapping[str, ContainerView] = field(default_factory=dict)
    conditions: Mapping[str, ConditionView] = field(default_factory=dict)

    @property
    def gone(self) -> bool:
        """Whether the API server no longer has the pod."""
        return self.gone_at is not None

    @property
    def ended(self) -> bool:
        """Whether nothing of the pod runs any more."""
        return self.gone or self.phase in (Phase.SUCCEEDED, Phase.FAILED) or self.given_up

    @property
    def given_up(self) -> bool:
        """Whether the kubelet starts nothing more of the pod although its phase says Pending for ever.

        To the kubelet an init container whose cgroup met its memory limit has failed, even where it ended
        with status 0 (isInitContainerFailed in pkg/kubelet/kuberuntime): it ends the sidecar and goes no
        further.
        """
        environment = self.container(ENVIRONMENT)
        limit_met = environment.reason == "OOMKilled" and environment.exit_code == 0
        return self.phase is Phase.PENDING and limit_met and self.container(RUNNER).exit_code is not None

    @property
    def ended_at(self) -> datetime | None:
        """When the last container ended; None while unknown."""
        ends = [view.finished_at for view in self.containers.values() if view.finished_at]
        return max(ends, default=self.gone_at) if self.ended else None

    def container(self, name: str) -> ContainerView:
        """State of a container; one that the pod does not report has not started."""
        return self.containers.get(name) or ContainerView(name)

    def remembering(self, before: "PodView") -> "PodView":
        """The pod with why its containers were restarted: the kubelet drops that when the pod ends."""
        kept = {
            name: replace(view, restarted_for=before.container(name).restarted_for)
            for name, view in self.containers.items()
            if view.restarts and not view.restarted_for and before.container(name).restarts == view.restarts
        }
        return replace(self, containers={**self.containers, **kept}) if kept else self

    def holds(self, condition: str) -> ConditionView | None:
        """The condition if its status is True."""
        found = self.conditions.get(condition)
        return found if found and found.status == "True" else None


@dataclass(frozen=True, slots=True)
class JobView:
    """One Job: one try."""

    name: str
    uid: str
    run_uid: str
    owner_uid: str
    created_at: datetime
    attempt_key: str
    """Key of the attempt, from the Job's own annotation."""
    try_number: int
    verifies: int | None = None
    """Number of the try that this one judges again; None where an agent runs."""
    suspended: bool = False
    deleting: bool = False
    finished: ConditionView | None = None
    """Condition Complete or Failed."""
    rendered_digest: str = ""
    record_json: str = ""
    """The record that the operator wrote on the Job, where the pod's facts would be lost with the pod."""


@dataclass(frozen=True, slots=True)
class JobEvent:
    """Newest Warning event about a Job that has no pod, or about its pod that starts nothing."""

    reason: str
    message: str


def rendered_digest(pod_spec: Mapping[str, object], try_spec_json: str) -> str:
    """Digest of what must not change between the rendered pod and the admitted one.

    Covers the containers (name, image, command, arguments), the account, the host's namespaces and the try
    spec. A sidecar that a webhook injects, another image, or a debug container change it; defaults,
    tolerations and scheduling do not.
    """
    kinds = ("initContainers", "containers", "ephemeralContainers")
    shape = {
        "containers": [
            [kind, one.get("name"), one.get("image"), one.get("command") or [], one.get("args") or []]
            for kind in kinds
            for one in _mappings(pod_spec.get(kind))
        ],
        "account": pod_spec.get("serviceAccountName"),
        "host": [bool(pod_spec.get(name)) for name in ("hostNetwork", "hostPID", "hostIPC")],
        "trySpec": try_spec_json,
    }
    text = json.dumps(shape, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def _mappings(value: object) -> list[Mapping[str, object]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []
