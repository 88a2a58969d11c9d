"""Kubernetes Events about our resources, one a transition; `status` is the record, Events expire."""

import logging
from datetime import UTC, datetime
from typing import Literal

from assay.adapters.kube import KubeClient, KubeError
from assay.api.conditions import truncated
from assay.api.labels import GROUP, VERSION
from assay.api.resource import Resource

log = logging.getLogger(__name__)

NOTE_LIMIT = 1024


async def post_event(
    client: KubeClient, about: Resource, type_: Literal["Normal", "Warning"], reason: str, note: str
) -> None:
    """Post one Event. Failing to is logged and nothing more: an Event is never the only trace."""
    meta = about.metadata
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    body = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": f"{meta.name}.", "namespace": meta.namespace},
        "involvedObject": {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": about.names.kind,
            "name": meta.name,
            "namespace": meta.namespace,
            "uid": meta.uid,
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
        await client.create(f"/api/v1/namespaces/{meta.namespace}/events", body)
    except KubeError as error:
        log.warning("event %s about %s/%s: %s", reason, meta.namespace, meta.name, error)
