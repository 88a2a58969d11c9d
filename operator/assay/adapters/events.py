"""Kubernetes Events, one a transition or a clean-up; status, metric and log are the record, Events expire."""

import logging
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from assay.adapters.kube import KubeClient, KubeError
from assay.api.conditions import truncated
from assay.api.labels import API_VERSION
from assay.api.resource import Resource

log = logging.getLogger(__name__)

NOTE_LIMIT = 1024


@dataclass(frozen=True, slots=True)
class About:
    """The object that an Event is about; it may be gone already, its Events stay for their time."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str

    @classmethod
    def resource(cls, resource: Resource) -> "About":
        """One of our resources."""
        meta = resource.metadata
        return cls(API_VERSION, resource.names.kind, meta.namespace, meta.name, meta.uid)


async def post_event(
    client: KubeClient, about: About, type_: Literal["Normal", "Warning"], reason: str, note: str
) -> None:
    """Post one Event. Failing to is logged and nothing more: an Event is never the only trace."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    body = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": f"{about.name}.", "namespace": about.namespace},
        "involvedObject": {
            "apiVersion": about.api_version,
            "kind": about.kind,
            "name": about.name,
            "namespace": about.namespace,
            "uid": about.uid,
        },
        "type": type_,
        "reason": reason,
        "message": truncated(note, NOTE_LIMIT),
        "source": {"component": "assay-operator"},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
    try:
        await client.create(f"/api/v1/namespaces/{about.namespace}/events", body)
    except KubeError as error:
        log.warning("event %s about %s/%s: %s", reason, about.namespace, about.name, error)
