"""List, then watch, for ever: pages, bookmarks, a new list when the version is too old, reopened when cut."""

import asyncio
import logging
import random
import time
from collections.abc import Callable
from typing import Protocol

import msgspec

from assay.adapters.kube import KubeClient, KubeError, WatchEvent, WatchExpired
from assay.adapters.kube_decode import Meta, decode_metadata

log = logging.getLogger(__name__)

FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 30.0


class Named(Protocol):
    """Anything with a UID."""

    @property
    def uid(self) -> str: ...


class ListWatch[View: Named]:
    """Keeps `put` and `drop` told of one kind of objects in one namespace.

    Whatever the API server does, each object that exists is put at least once and each that is gone is
    dropped; an object may be put again unchanged.
    """

    def __init__(
        self,
        client: KubeClient,
        path: str,
        selector: str,
        decode: Callable[[msgspec.Raw], tuple[Meta, View]],
        put: Callable[[View], None],
        drop: Callable[[View], None],
    ) -> None:
        self._client, self._path, self._selector = client, path, selector
        self._decode, self._put, self._drop = decode, put, drop
        self._known: dict[str, View] = {}
        self._version = ""
        self.synced = asyncio.Event()
        """Set once everything that exists has been put; not set while a new list is being put and dropped."""
        self.heard_at = time.monotonic()
        """When the API server was last heard, an event, a bookmark or the end of a list."""

    async def run(self) -> None:
        """Until cancelled."""
        pause = FIRST_PAUSE_SECONDS
        while True:
            begun = time.monotonic()
            try:
                if not self._version:
                    await self._list()
                await self._follow()
                pause = FIRST_PAUSE_SECONDS
            except WatchExpired as error:
                log.info("%s: listing again: %s", self._path, error)
                self._version = ""
                continue
            except (KubeError, msgspec.DecodeError) as error:
                if self.heard_at >= begun:
                    # It worked until it broke: only what fails again and again is asked less often.
                    pause = FIRST_PAUSE_SECONDS
                log.warning("%s: %s; again in %.1f s", self._path, error, pause)
                if isinstance(error, msgspec.DecodeError):
                    self._version = ""
                await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311  jitter, no secret
                pause = min(LONGEST_PAUSE_SECONDS, pause * 2)

    async def _list(self) -> None:
        listed: dict[str, View] = {}
        version = ""
        async for page in self._client.pages(self._path, {"labelSelector": self._selector}):
            for raw in page:
                _, view = self._decode(raw)
                listed[view.uid] = view
            version = page.metadata.resource_version
        gone = [view for uid, view in self._known.items() if uid not in listed]
        self._known = listed
        self.synced.clear()
        for view in listed.values():
            self._put(view)
        for view in gone:
            self._drop(view)
        self._version = version
        self.heard_at = time.monotonic()
        self.synced.set()

    async def _follow(self) -> None:
        # The server ends watches at random times; a limit of our own spreads the ends.
        limit = str(random.randint(240, 480))  # noqa: S311  jitter, no secret
        parameters = {"labelSelector": self._selector, "timeoutSeconds": limit}
        async for event in self._client.watch(self._path, parameters, self._version):
            self.heard_at = time.monotonic()
            self._take(event)

    def _take(self, event: WatchEvent) -> None:
        if event.type == "BOOKMARK":
            self._version = decode_metadata(event.object).resource_version
            return
        meta, view = self._decode(event.object)
        if event.type == "DELETED":
            self._known.pop(view.uid, None)
            self._drop(view)
        else:
            self._known[view.uid] = view
            self._put(view)
        self._version = meta.resource_version
