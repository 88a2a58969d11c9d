"""What nobody waits for: runs whose time is up are deleted, and so is what lost its owner."""

import asyncio
import logging
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import msgspec
from pydantic import ValidationError

from assay.adapters.kube import KubeError, KubeRefused
from assay.adapters.kube_decode import Meta, decode_metadata
from assay.api import labels
from assay.api.evaluation_run import EvaluationRun
from assay.core.expiry import expires_at
from assay.handlers.context import Context
from assay.handlers.resources import collection_path

log = logging.getLogger(__name__)

EXPIRY_SECONDS = 5.0
SELECTOR = f"{labels.MANAGED_BY}=assay,{labels.ROLE}={labels.ROLE_ATTEMPT}"


class Housekeeper:
    """Two loops over every namespace of runs."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._suspects: dict[str, frozenset[str]] = {}
        """What had no living owner at the last sweep, by namespace: UIDs."""

    async def expire(self) -> None:
        """Delete runs after their time, until cancelled."""
        while True:
            await asyncio.sleep(EXPIRY_SECONDS)
            for namespace in self._context.settings.run_namespaces:
                now = datetime.now(UTC)
                for run in list(self._context.cache.runs(namespace).values()):
                    due = expires_at(run)
                    if due is not None and due <= now and self._context.lease.held:
                        await self._expire(run, now)

    async def sweep(self) -> None:
        """Remove orphans, until cancelled."""
        while True:
            await asyncio.sleep(self._context.settings.sweep_seconds)
            for namespace in self._context.settings.run_namespaces:
                try:
                    await self._sweep(namespace)
                except (KubeError, msgspec.DecodeError) as error:
                    log.warning("looking for orphans in namespace %s: %s", namespace, error)

    async def _expire(self, seen: EvaluationRun, now: datetime) -> None:
        """Delete the run as it is now: its spec may ask for a retry that the cache does not show yet."""
        meta, client = seen.metadata, self._context.client
        path = f"{collection_path('evaluationruns', meta.namespace)}/{meta.name}"
        try:
            run = EvaluationRun.parse(await client.get(path))
            due = expires_at(run)
            if run.metadata.uid != meta.uid or due is None or due > now:
                return
            exactly = {"uid": meta.uid, "resourceVersion": run.metadata.resource_version}
            await client.request(
                "DELETE", path, {"propagationPolicy": "Background", "preconditions": exactly}
            )
        except (KubeError, ValidationError) as error:
            if not (isinstance(error, KubeRefused) and error.status in (404, 409)):
                log.warning("run %s/%s not deleted after its time: %s", meta.namespace, meta.name, error)
            return
        log.info(
            "run %s/%s deleted, %d s after its end; its evidence stays in %s",
            meta.namespace,
            meta.name,
            run.spec.ttl_seconds_after_finished,
            run.status.evidence_prefix or "no prefix: it made no try",
        )

    async def _sweep(self, namespace: str) -> None:
        """Remove what had no living owner at the last sweep and has none now.

        Owners are listed after what they own, so one that was made in between is not missed; and once is not
        enough, since the garbage collector takes its time after a deletion.
        """
        core, batch = f"/api/v1/namespaces/{namespace}", f"/apis/batch/v1/namespaces/{namespace}"
        pods = [one async for one in self._list(f"{core}/pods", SELECTOR)]
        jobs = [one async for one in self._list(f"{batch}/jobs", SELECTOR)]
        runs = {one.uid async for one in self._list(collection_path("evaluationruns", namespace))}
        known = {one.uid for one in jobs}
        orphans = {one.uid: (f"{batch}/jobs/{one.name}", one) for one in jobs if _run_of(one) not in runs}
        orphans |= {
            one.uid: (f"{core}/pods/{one.name}", one)
            for one in pods
            if _run_of(one) not in runs or not any(owner.uid in known for owner in one.owner_references)
        }
        suspects = self._suspects.get(namespace, frozenset())
        for uid, (path, meta) in orphans.items():
            if uid in suspects and self._context.lease.held:
                await self._remove(namespace, path, meta)
        self._suspects[namespace] = frozenset(orphans)

    async def _remove(self, namespace: str, path: str, meta: Meta) -> None:
        body = {"propagationPolicy": "Background", "preconditions": {"uid": meta.uid}}
        kind = "Job" if "/jobs/" in path else "Pod"
        try:
            await self._context.client.request("DELETE", path, body)
        except KubeError as error:
            if not (isinstance(error, KubeRefused) and error.status in (404, 409)):
                log.warning("%s %s/%s is an orphan and not removed: %s", kind, namespace, meta.name, error)
            return
        self._context.metrics.orphans_removed.labels(namespace, kind).inc()
        log.warning(
            "%s %s/%s removed: run %s, which it belonged to, no longer exists, or nothing owns it",
            kind,
            namespace,
            meta.name,
            _run_of(meta),
        )

    async def _list(self, path: str, selector: str = "") -> AsyncIterator[Meta]:
        """Metadata of what is there and is not being deleted already, our own kinds' aside."""
        query = {"labelSelector": selector} if selector else {}
        async for page in self._context.client.pages(path, query, metadata_only=True):
            for raw in page:
                meta = decode_metadata(raw)
                if not selector or (meta.deletion_timestamp is None and _run_of(meta)):
                    yield meta


def _run_of(meta: Meta) -> str:
    return meta.labels.get(labels.RUN_UID, "")
