"""What S3 has of a run: manifests by pod, by try, by run. Every answer is checked by the core."""

import asyncio
import logging
from datetime import UTC, datetime
from itertools import batched

from assay.adapters.s3 import AsyncS3Store, NoSuchBucket, NoSuchKey, StorageError
from assay.api.evaluation_run import EvaluationRun
from assay.api.evaluation_run_status import RunReason
from assay.core.manifest import MANIFEST_NAME, MAX_MANIFEST_BYTES, best_manifest, read_manifest
from assay.core.names import attempt_prefix, try_prefix
from assay.core.record import AttemptKey, ManifestAbsent, ManifestAnswer, ManifestBad, ManifestFound
from assay.core.resolve import Problem
from assay.core.try_spec import identity_of, storage_of

log = logging.getLogger(__name__)

READ_AT_ONCE = 16
UID_LENGTH = 36


class RunEvidence:
    """The evidence of one run. Every method raises `StorageError`."""

    def __init__(self, store: AsyncS3Store, run: EvaluationRun) -> None:
        self._store, self._run = store, run
        self._storage = storage_of(run)

    async def check(self) -> Problem | None:
        """Whether the bucket can be used now."""
        try:
            await self._store.check_bucket(self._storage.bucket)
        except StorageError as error:
            return storage_problem(error)
        return None

    async def manifest_of(self, key: AttemptKey, try_number: int, name: str, pod_uid: str) -> ManifestAnswer:
        """The manifest of one pod, or of any pod of the try where `pod_uid` is empty."""
        asked_at = datetime.now(UTC)
        identity = identity_of(self._run, key, try_number, name)
        if not pod_uid:
            prefix = f"{attempt_prefix(self._storage, identity)}try-{try_number}/"
            found = best_manifest(await self._below(prefix))
            return found or ManifestAbsent(asked_at)
        try:
            return await self._get(try_prefix(self._storage, identity, pod_uid) + MANIFEST_NAME)
        except NoSuchKey:
            return ManifestAbsent(asked_at)

    async def _below(self, prefix: str) -> list[ManifestFound | ManifestBad]:
        listed = await self._store.list_keys(self._storage.bucket, prefix)
        keys = [info.key for info in listed if _is_manifest(info.key)]
        found: list[ManifestFound | ManifestBad] = []
        for some in batched(keys, READ_AT_ONCE, strict=False):
            found += await asyncio.gather(*(self._get(key) for key in some))
        return found

    async def _get(self, key: str) -> ManifestFound | ManifestBad:
        found = read_manifest(await self._store.get_bytes(self._storage.bucket, key, MAX_MANIFEST_BYTES))
        if isinstance(found, ManifestFound):
            manifest = found.manifest
            if key != try_prefix(self._storage, manifest.identity, manifest.pod_uid) + MANIFEST_NAME:
                return ManifestBad(f"{key} names another try: Job {manifest.identity.job_name}")
        return found


def storage_problem(error: StorageError) -> Problem:
    """The condition for a store that cannot be used; the run waits and loses nothing."""
    missing = isinstance(error, NoSuchBucket)
    advice = "create the bucket, or correct spec.storage in a new run" if missing else "live tries go on"
    return Problem(RunReason.WAITING_FOR_STORAGE, f"{error}; {advice}")


def _is_manifest(key: str) -> bool:
    """Whether a key is `…/try-N/<pod UID>/manifest.json`.

    Harbor and the agent leave files of that name further below; they are not ours.
    """
    parts = key.split("/")
    if len(parts) < 3 or parts[-1] != MANIFEST_NAME:
        return False
    return parts[-3].startswith("try-") and len(parts[-2]) == UID_LENGTH
