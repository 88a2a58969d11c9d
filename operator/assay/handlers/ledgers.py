"""Ledgers: read the source, recompute the digest, tell it in the status; the runs' only way to a task set."""

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Literal

from assay.adapters.events import About, post_event
from assay.adapters.kube import KubeClient, KubeError, KubeRefused
from assay.adapters.ledger_source import ledger_bytes
from assay.adapters.s3 import AsyncS3Store, NoSuchBucket, NoSuchKey, StorageError
from assay.api.conditions import is_true
from assay.api.ledger_resource import Ledger, LedgerCondition, LedgerReason
from assay.api.resource import status_patch
from assay.core.ledger import LedgerFile
from assay.core.ledger_status import LedgerProblem, check_ledger, ledger_status
from assay.core.plan import RunLedger
from assay.core.resolve import Problem, run_ledger_of
from assay.handlers.resources import ResourceCache, status_path

log = logging.getLogger(__name__)

RETRY_SECONDS = 10.0
KEPT_FILES = 50


class LedgerLibrary:
    """Ledger files that were read and verified by this process, by digest. Failures are asked again."""

    def __init__(self, client: KubeClient, store: AsyncS3Store) -> None:
        self._client, self._store = client, store
        self._files: dict[tuple[str, str], LedgerFile] = {}
        self._lock = asyncio.Lock()
        self.on_loss: Callable[[], None] = lambda: None
        """Called when a file that was verified before no longer is what it was."""

    async def read(self, ledger: Ledger, *, fresh: bool = False) -> LedgerFile | LedgerProblem:
        """The Ledger's file, or why it cannot be used. `fresh` computes the digest anew from its source."""
        key = (ledger.metadata.uid, ledger.spec.digest)
        async with self._lock:
            file = self._files.get(key)
            if file is not None and not fresh:
                return file
            found = await self._read(ledger)
            if file is not None and isinstance(found, LedgerProblem) and not found.may_pass:
                del self._files[key]
                self.on_loss()
            if isinstance(found, LedgerFile):
                self._files[key] = found
                while len(self._files) > KEPT_FILES:
                    self._files.pop(next(iter(self._files)))
            return found

    async def _read(self, ledger: Ledger) -> LedgerFile | LedgerProblem:
        try:
            content = await ledger_bytes(self._client, self._store, ledger)
        except (NoSuchKey, NoSuchBucket) as error:
            return LedgerProblem(LedgerReason.SOURCE_NOT_FOUND, f"{error}: publish the ledger there")
        except KubeRefused as error:
            return LedgerProblem(LedgerReason.SOURCE_NOT_FOUND, str(error))
        except (StorageError, KubeError) as error:
            return LedgerProblem(LedgerReason.SOURCE_UNAVAILABLE, str(error))
        # Parsing a large ledger takes seconds; the loop serves every run meanwhile.
        return await asyncio.to_thread(check_ledger, ledger, content)


async def run_ledger(library: LedgerLibrary, ledger: Ledger, *, fresh: bool = False) -> RunLedger | Problem:
    """The verified ledger as a run uses it, or why the run must wait; `fresh` reads its source again."""
    return run_ledger_of(ledger, await library.read(ledger, fresh=fresh))


class LedgerKeeper:
    """Keeps the status of every Ledger. One task for all: ledgers are few and their files are cached."""

    def __init__(
        self, client: KubeClient, library: LedgerLibrary, cache: ResourceCache, namespaces: tuple[str, ...]
    ) -> None:
        self._client, self._library, self._cache = client, library, cache
        self._namespaces = namespaces
        self.wake = asyncio.Event()
        library.on_loss = self.wake.set

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            self.wake.clear()
            pending = False
            for namespace in self._namespaces:
                for ledger in self._cache.ledgers(namespace).values():
                    pending |= not await self._keep(ledger)
            try:
                await asyncio.wait_for(self.wake.wait(), RETRY_SECONDS if pending else None)
            except TimeoutError:
                continue

    async def _keep(self, ledger: Ledger) -> bool:
        """Bring one status up to date; whether nothing is left to try again."""
        found = await self._library.read(ledger)
        status = ledger_status(ledger, found, datetime.now(UTC))
        if status != ledger.status and not await self._write(
            ledger, found, status_patch(ledger.status, status)
        ):
            return False
        return isinstance(found, LedgerFile) or not found.may_pass

    async def _write(
        self, ledger: Ledger, found: LedgerFile | LedgerProblem, patch: dict[str, object]
    ) -> bool:
        place = f"Ledger {ledger.metadata.namespace}/{ledger.metadata.name}"
        try:
            body = await self._client.merge(status_path(ledger), {"status": patch})
        except KubeError as error:
            log.warning("%s: status not written: %s", place, error)
            return isinstance(error, KubeRefused) and error.status == 404
        self._cache.take("ledgers", body)
        verified = isinstance(found, LedgerFile)
        words = "" if isinstance(found, LedgerFile) else found.message
        reason = LedgerReason.DIGEST_MATCHES if isinstance(found, LedgerFile) else found.reason
        log.info("%s: Verified=%s %s %s", place, verified, reason.value, words)
        if verified != is_true(ledger.status.conditions, LedgerCondition.VERIFIED) or not verified:
            kind: Literal["Normal", "Warning"] = "Normal" if verified else "Warning"
            await post_event(self._client, About.resource(ledger), kind, reason.value, words or "Verified")
        return True
