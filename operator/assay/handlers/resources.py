"""The three kinds as last seen, parsed, and who is told when they change."""

import logging
from collections.abc import Callable, Iterable
from typing import Any

from pydantic import ValidationError

from assay.api.agent_variant import AgentVariant
from assay.api.evaluation_run import EvaluationRun
from assay.api.labels import API_VERSION
from assay.api.ledger_resource import Ledger
from assay.api.resource import Resource

log = logging.getLogger(__name__)

KINDS: dict[str, type[Resource]] = {kind.names.plural: kind for kind in (Ledger, AgentVariant, EvaluationRun)}


def collection_path(plural: str, namespace: str) -> str:
    """Path of a collection of our kinds."""
    return f"/apis/{API_VERSION}/namespaces/{namespace}/{plural}"


def status_path(resource: Resource) -> str:
    """Path of a resource's status."""
    meta = resource.metadata
    return f"{collection_path(resource.names.plural, meta.namespace)}/{meta.name}/status"


class ResourceCache:
    """What exists, by namespace and name. A change of status alone tells nobody: only we write it."""

    def __init__(self, changed: Callable[[str, Resource | None, Resource | None], None]) -> None:
        self._changed = changed
        self._objects: dict[str, dict[tuple[str, str], Resource]] = {plural: {} for plural in KINDS}

    def ledgers(self, namespace: str) -> dict[str, Ledger]:
        """Ledgers of a namespace by name."""
        return self._of(Ledger, namespace)

    def variants(self, namespace: str) -> dict[str, AgentVariant]:
        """AgentVariants of a namespace by name."""
        return self._of(AgentVariant, namespace)

    def runs(self, namespace: str) -> dict[str, EvaluationRun]:
        """EvaluationRuns of a namespace by name."""
        return self._of(EvaluationRun, namespace)

    def take(self, plural: str, body: Any, *, deleted: bool = False) -> None:
        """An object was seen, or seen to be gone. One that cannot be parsed is logged and left out."""
        meta = body.get("metadata") or {}
        key = (str(meta.get("namespace")), str(meta.get("name")))
        gone = deleted or meta.get("deletionTimestamp") is not None
        found = None if gone else self._parse(plural, body)
        old = self._objects[plural].get(key)
        if deleted and old is not None and old.metadata.uid != meta.get("uid"):
            return  # a late event of an earlier object of that name
        if found is None:
            self._objects[plural].pop(key, None)
        else:
            self._objects[plural][key] = found
        if _differs(old, found):
            self._changed(plural, old, found)

    def replace_all(self, plural: str, namespace: str, bodies: Iterable[Any]) -> None:
        """A fresh list of a namespace: repairs whatever events were lost."""
        names = set()
        for body in bodies:
            names.add(body["metadata"]["name"])
            self.take(plural, body)
        for key in [key for key in self._objects[plural] if key[0] == namespace and key[1] not in names]:
            old = self._objects[plural].pop(key)
            self._changed(plural, old, None)

    def _of[R: Resource](self, kind: type[R], namespace: str) -> dict[str, R]:
        objects = self._objects[kind.names.plural]
        return {
            name: one
            for (place, name), one in objects.items()
            if place == namespace and isinstance(one, kind)
        }

    def _parse(self, plural: str, body: Any) -> Resource | None:
        try:
            return KINDS[plural].parse(body)
        except ValidationError as error:
            meta = body.get("metadata") or {}
            first = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(map(str, first["loc"]))
            log.error(
                "%s %s/%s is not understood: field %s: %s (was the operator updated without its CRDs?)",
                plural,
                meta.get("namespace"),
                meta.get("name"),
                place,
                first["msg"],
            )
            return None


def _differs(old: Resource | None, new: Resource | None) -> bool:
    if old is None or new is None:
        return old is not new
    mine, other = old.metadata, new.metadata
    return (mine.uid, mine.generation) != (other.uid, other.generation)
