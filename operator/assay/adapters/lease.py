"""The Lease that makes one operator the only writer. Its holder is the pod's UID, so a restarted container
of the same pod has it back at once."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

from assay.adapters.kube import JSON, KubeClient, KubeError, KubeRefused

log = logging.getLogger(__name__)

LEASE_NAME = "assay-operator"
LEASE_SECONDS = 15
RENEW_SECONDS = 5.0
RETRY_SECONDS = 1.0
"""Pause after a renewal that failed: one lost answer must not cost the Lease."""
EPOCH = "assay.dev/epoch"


class LeaseLost(Exception):
    """Somebody else holds the Lease, or it could not be renewed in time: stop acting at once."""


class Lease:
    """Acquire with `acquire`, then keep `hold` running; it raises LeaseLost."""

    def __init__(self, client: KubeClient, namespace: str, identity: str) -> None:
        self._client, self._identity = client, identity
        self._collection = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._path = f"{self._collection}/{LEASE_NAME}"
        self._seen_at, self._mark = 0.0, ""
        self._renewed = 0.0
        self.epoch = 0
        """Of this process, 0 until the Lease is acquired: later processes have higher ones, those of the same
        pod too. It is never below the time in seconds, so a Lease that was deleted does not start again at 1.
        """

    @property
    def held(self) -> bool:
        """Whether nobody else can hold the Lease now, by this machine's clock alone."""
        return self.epoch > 0 and time.monotonic() - self._renewed < LEASE_SECONDS - RENEW_SECONDS / 2

    async def acquire(self) -> None:
        """Wait until the Lease is ours: it is free, expired, or was ours before."""
        told = False
        while not await self._try():
            if not told:
                log.info("Lease %s is held by another operator: waiting", LEASE_NAME)
                told = True
            await asyncio.sleep(1.0)
        log.info("Lease %s acquired, epoch %d", LEASE_NAME, self.epoch)

    async def hold(self) -> None:
        """Renew until cancelled. Raises LeaseLost."""
        pause = RENEW_SECONDS
        while True:
            await asyncio.sleep(pause)
            renewed = await self._try()
            pause = RENEW_SECONDS if renewed else RETRY_SECONDS
            if not renewed and time.monotonic() - self._renewed > LEASE_SECONDS - RENEW_SECONDS:
                raise LeaseLost(f"Lease {LEASE_NAME} could not be renewed for {LEASE_SECONDS} s")

    async def release(self) -> None:
        """Give the Lease up, so that a successor need not wait for its end."""
        try:
            lease = await self._client.get(self._path)
            if self._is_ours(lease):
                lease["spec"]["holderIdentity"] = ""
                await self._client.replace(self._path, lease)
        except KubeError as error:
            log.warning("Lease %s not released: %s", LEASE_NAME, error)

    async def _try(self) -> bool:
        try:
            lease = await self._client.get(self._path)
        except KubeRefused as error:
            if error.status != 404:
                log.warning("Lease %s: %s", LEASE_NAME, error)
                return False
            lease = {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": LEASE_NAME},
            }
            return await self._write(lease, lambda: self._client.create(self._collection, lease))
        except KubeError as error:
            log.warning("Lease %s: %s", LEASE_NAME, error)
            return False
        if self.epoch and not self._is_ours(lease):
            raise LeaseLost(
                f"Lease {LEASE_NAME} is held by {_holder(lease) or 'nobody'}, epoch {_epoch(lease)}"
            )
        if not self.epoch and not self._is_free(lease):
            return False
        return await self._write(lease, lambda: self._client.replace(self._path, lease))

    def _is_ours(self, lease: JSON) -> bool:
        """Whether this very process holds it: a second one of the same identity has another epoch."""
        return (_holder(lease), _epoch(lease)) == (self._identity, self.epoch)

    def _is_free(self, lease: JSON) -> bool:
        holder = _holder(lease)
        return holder in ("", self._identity) or self._expired(holder, lease["spec"])

    def _expired(self, holder: str, spec: JSON) -> bool:
        """By our own clock, from when we saw the last renewal: clocks of machines differ."""
        mark = f"{holder} {spec.get('renewTime')}"
        if self._mark != mark:
            self._seen_at, self._mark = time.monotonic(), mark
        return time.monotonic() - self._seen_at > float(spec.get("leaseDurationSeconds") or LEASE_SECONDS)

    async def _write(self, lease: JSON, write: Callable[[], Awaitable[JSON]]) -> bool:
        """Take or renew. The resourceVersion guards it: of two that try at once one succeeds."""
        begun = time.monotonic()
        epoch = self.epoch or max(_epoch(lease) + 1, int(time.time()))
        lease["metadata"]["annotations"] = (lease["metadata"].get("annotations") or {}) | {EPOCH: str(epoch)}
        lease["spec"] = self._spec(lease.get("spec") or {})
        try:
            await write()
        except KubeError as error:
            if not (isinstance(error, KubeRefused) and error.status == 409):
                log.warning("Lease %s: %s", LEASE_NAME, error)
            return False
        self.epoch, self._renewed = epoch, begun
        return True

    def _spec(self, old: JSON) -> JSON:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        mine = old.get("holderIdentity") == self._identity
        return {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": LEASE_SECONDS,
            "acquireTime": old.get("acquireTime") if mine else now,
            "renewTime": now,
            "leaseTransitions": int(old.get("leaseTransitions") or 0) + (0 if mine or not old else 1),
        }


def _holder(lease: JSON) -> str:
    return str((lease.get("spec") or {}).get("holderIdentity") or "")


def _epoch(lease: JSON) -> int:
    text = str((lease["metadata"].get("annotations") or {}).get(EPOCH, "0"))
    return int(text) if text.isdecimal() else 0
