"""The Lease that makes one operator the only writer. Its holder is the pod's UID, so a restarted container
of the same pod has it back at once."""

import asyncio
import logging
import time
from datetime import UTC, datetime
from typing import Any

from assay.adapters.kube import JSON, KubeClient, KubeError, KubeRefused

log = logging.getLogger(__name__)

LEASE_NAME = "assay-operator"
LEASE_SECONDS = 15
RENEW_SECONDS = 5.0


class LeaseLost(Exception):
    """Somebody else holds the Lease, or it could not be renewed in time: stop acting at once."""


class Lease:
    """Acquire with `acquire`, then keep `hold` running; it raises LeaseLost."""

    def __init__(self, client: KubeClient, namespace: str, identity: str) -> None:
        self._client, self._identity = client, identity
        self._collection = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._path = f"{self._collection}/{LEASE_NAME}"
        self._seen: tuple[str, float] = ("", 0.0)
        self._mark = ""
        self.epoch = 0
        """Number of changes of holder: later holders have higher ones."""

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
        renewed = time.monotonic()
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            if await self._try():
                renewed = time.monotonic()
            elif self._seen[0] not in ("", self._identity):
                raise LeaseLost(f"Lease {LEASE_NAME} is held by {self._seen[0]}")
            elif time.monotonic() - renewed > LEASE_SECONDS - RENEW_SECONDS:
                raise LeaseLost(f"Lease {LEASE_NAME} could not be renewed for {LEASE_SECONDS} s")

    async def release(self) -> None:
        """Give the Lease up, so that a successor need not wait for its end."""
        try:
            lease = await self._client.get(self._path)
            if lease["spec"].get("holderIdentity") == self._identity:
                lease["spec"]["holderIdentity"] = ""
                await self._client.replace(self._path, lease)
        except KubeError as error:
            log.warning("Lease %s not released: %s", LEASE_NAME, error)

    async def _try(self) -> bool:
        try:
            lease = await self._client.get(self._path)
        except KubeRefused as error:
            return error.status == 404 and await self._create()
        except KubeError as error:
            log.warning("Lease %s: %s", LEASE_NAME, error)
            return False
        return await self._take(lease)

    async def _create(self) -> bool:
        body: JSON = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": LEASE_NAME},
            "spec": self._spec({}),
        }
        return await self._write(self._client.create(self._collection, body))

    async def _take(self, lease: JSON) -> bool:
        spec = lease.get("spec") or {}
        holder = spec.get("holderIdentity") or ""
        if holder not in ("", self._identity) and not self._expired(holder, spec):
            return False
        lease["spec"] = self._spec(spec)
        return await self._write(self._client.replace(self._path, lease))

    def _expired(self, holder: str, spec: JSON) -> bool:
        """By our own clock, from when we saw the last renewal: clocks of machines differ."""
        mark = f"{holder} {spec.get('renewTime')}"
        if self._seen[0] != holder or self._mark != mark:
            self._seen, self._mark = (holder, time.monotonic()), mark
        return time.monotonic() - self._seen[1] > float(spec.get("leaseDurationSeconds") or LEASE_SECONDS)

    def _spec(self, old: JSON) -> JSON:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        mine = old.get("holderIdentity") == self._identity
        transitions = int(old.get("leaseTransitions") or 0) + (0 if mine or not old else 1)
        self.epoch = transitions
        return {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": LEASE_SECONDS,
            "acquireTime": old.get("acquireTime") if mine else now,
            "renewTime": now,
            "leaseTransitions": transitions,
        }

    async def _write(self, request: Any) -> bool:
        try:
            await request
        except KubeRefused as error:
            if error.status != 409:
                log.warning("Lease %s: %s", LEASE_NAME, error)
            return False
        except KubeError as error:
            log.warning("Lease %s: %s", LEASE_NAME, error)
            return False
        return True
