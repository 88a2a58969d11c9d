"""From the API server's JSON to the core's small views of Jobs and pods; every other field is skipped."""

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from assay.api import labels
from assay.core.observation import (
    ConditionView,
    ContainerView,
    JobEvent,
    JobView,
    Phase,
    PodView,
    rendered_digest,
)


class _Struct(msgspec.Struct, rename="camel"):
    pass


class _Owner(_Struct):
    uid: str
    name: str = ""
    kind: str = ""
    controller: bool = False


class Meta(_Struct):
    """Metadata of any object; bookmarks have no name."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: list[_Owner] = []


class Bookmark(_Struct):
    """Any object, of which only the metadata matter."""

    metadata: Meta


class _Condition(_Struct):
    type: str
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None


class _JobSpec(_Struct):
    suspend: bool = False


class _JobStatus(_Struct):
    conditions: list[_Condition] = []


class _Job(_Struct):
    metadata: Meta
    spec: _JobSpec = msgspec.field(default_factory=_JobSpec)
    status: _JobStatus = msgspec.field(default_factory=_JobStatus)


class _Waiting(_Struct):
    reason: str = ""
    message: str = ""


class _Running(_Struct):
    started_at: datetime | None = None


class _Terminated(_Struct):
    exit_code: int = 0
    reason: str = ""
    message: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None


class _State(_Struct):
    waiting: _Waiting | None = None
    running: _Running | None = None
    terminated: _Terminated | None = None


class _ContainerStatus(_Struct):
    name: str
    state: _State = msgspec.field(default_factory=_State)
    last_state: _State = msgspec.field(default_factory=_State)
    restart_count: int = 0
    image_id: str = msgspec.field(default="", name="imageID")


class _PodStatus(_Struct):
    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    conditions: list[_Condition] = []
    container_statuses: list[_ContainerStatus] = []
    init_container_statuses: list[_ContainerStatus] = []


class _Container(_Struct):
    name: str
    image: str = ""
    command: list[str] = []
    args: list[str] = []


class _PodSpec(_Struct):
    node_name: str = ""
    service_account_name: str = ""
    host_network: bool = False
    host_pid: bool = msgspec.field(default=False, name="hostPID")
    host_ipc: bool = msgspec.field(default=False, name="hostIPC")
    containers: list[_Container] = []
    init_containers: list[_Container] = []
    ephemeral_containers: list[_Container] = []


class _Pod(_Struct):
    metadata: Meta
    spec: _PodSpec = msgspec.field(default_factory=_PodSpec)
    status: _PodStatus = msgspec.field(default_factory=_PodStatus)


class _Event(_Struct):
    metadata: Meta
    involved_object: _Owner
    reason: str = ""
    message: str = ""
    type: str = ""
    last_timestamp: datetime | None = None
    event_time: datetime | None = None


class _EventList(_Struct):
    items: list[_Event] = []


_job = msgspec.json.Decoder(_Job).decode
_pod = msgspec.json.Decoder(_Pod).decode
_bookmark = msgspec.json.Decoder(Bookmark).decode
_events = msgspec.json.Decoder(_EventList).decode

_NEVER = datetime.fromtimestamp(0, UTC)


def decode_metadata(raw: bytes | msgspec.Raw) -> Meta:
    """Metadata of any object."""
    return _bookmark(raw).metadata


def decode_job(raw: bytes | msgspec.Raw) -> tuple[Meta, JobView]:
    """A Job and its view."""
    job = _job(raw)
    meta = job.metadata
    owner = next((one.uid for one in meta.owner_references if one.controller), "")
    finished = next(
        (one for one in job.status.conditions if one.type in ("Complete", "Failed") and one.status == "True"),
        None,
    )
    number = meta.annotations.get(labels.TRY_NUMBER, "")
    verifies = meta.annotations.get(labels.VERIFIES, "")
    return meta, JobView(
        name=meta.name,
        uid=meta.uid,
        run_uid=meta.labels.get(labels.RUN_UID, ""),
        owner_uid=owner,
        created_at=meta.creation_timestamp or _NEVER,
        attempt_key=meta.annotations.get(labels.ATTEMPT, ""),
        try_number=int(number) if number.isdigit() else 0,
        verifies=int(verifies) if verifies.isdigit() else None,
        suspended=job.spec.suspend,
        deleting=meta.deletion_timestamp is not None,
        finished=_condition(finished) if finished else None,
        rendered_digest=meta.annotations.get(labels.RENDERED_DIGEST, ""),
        record_json=meta.annotations.get(labels.TRY_RECORD, ""),
    )


def decode_pod(raw: bytes | msgspec.Raw) -> tuple[Meta, PodView]:
    """A pod and its view."""
    pod = _pod(raw)
    meta, status = pod.metadata, pod.status
    owner = next((one.name for one in meta.owner_references if one.controller and one.kind == "Job"), "")
    statuses = (*status.init_container_statuses, *status.container_statuses)
    phase = Phase(status.phase) if status.phase in Phase else Phase.UNKNOWN
    return meta, PodView(
        name=meta.name,
        uid=meta.uid,
        job_name=owner,
        run_uid=meta.labels.get(labels.RUN_UID, ""),
        created_at=meta.creation_timestamp or _NEVER,
        attempt_key=meta.annotations.get(labels.ATTEMPT, ""),
        phase=phase,
        reason=status.reason,
        message=status.message,
        node=pod.spec.node_name,
        deleting=meta.deletion_timestamp is not None,
        gone_by=meta.deletion_timestamp,
        rendered_digest=_digest(pod),
        containers={one.name: _container(one) for one in statuses},
        conditions={one.type: _condition(one) for one in status.conditions},
    )


def decode_events(
    raw: bytes, *, since: datetime | None = None, without: Collection[str] = ()
) -> dict[str, JobEvent]:
    """Newest event about each object in a list of events, by the object's name.

    Only of those that were seen at or after `since`, and whose reason is not among `without`.
    """
    newest: dict[str, tuple[datetime, JobEvent]] = {}
    for event in _events(raw).items:
        when = event.last_timestamp or event.event_time or event.metadata.creation_timestamp or _NEVER
        name = event.involved_object.name
        if event.reason in without or (since is not None and when < since):
            continue
        if name not in newest or newest[name][0] <= when:
            newest[name] = (when, JobEvent(event.reason, event.message))
    return {name: event for name, (_, event) in newest.items()}


def _condition(condition: _Condition) -> ConditionView:
    return ConditionView(
        condition.type,
        condition.status,
        condition.reason,
        condition.message,
        condition.last_transition_time,
    )


def _container(status: _ContainerStatus) -> ContainerView:
    state = status.state
    # A container that waits to be restarted tells how it ended in its last state.
    ended = state.terminated or (None if state.running else status.last_state.terminated)
    before = status.last_state.terminated if status.restart_count else None
    running = state.running.started_at if state.running else None
    return ContainerView(
        name=status.name,
        waiting_reason=state.waiting.reason if state.waiting else "",
        waiting_message=state.waiting.message if state.waiting else "",
        started_at=running or (ended.started_at if ended else None),
        finished_at=ended.finished_at if ended else None,
        exit_code=ended.exit_code if ended else None,
        reason=ended.reason if ended else "",
        message=ended.message if ended else "",
        restarts=status.restart_count,
        restarted_for=before.reason if before else "",
        image_id=status.image_id,
    )


def _digest(pod: _Pod) -> str:
    spec = pod.spec
    shape: Mapping[str, Any] = {
        "containers": _shapes(spec.containers),
        "initContainers": _shapes(spec.init_containers),
        "ephemeralContainers": _shapes(spec.ephemeral_containers),
        "serviceAccountName": spec.service_account_name,
        "hostNetwork": spec.host_network,
        "hostPID": spec.host_pid,
        "hostIPC": spec.host_ipc,
    }
    return rendered_digest(shape, pod.metadata.annotations.get(labels.TRY_SPEC, ""))


def _shapes(containers: list[_Container]) -> list[dict[str, Any]]:
    return [
        {"name": one.name, "image": one.image, "command": one.command, "args": one.args} for one in containers
    ]
