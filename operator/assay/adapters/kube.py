"""A thin asynchronous client of the API server: JSON in and out, pages, watches, typed errors.

The official client costs four times the CPU of this one for a Job (perf.md §3), and the operator's hot path
is creating Jobs and reading watch events.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any

import aiohttp
import msgspec

from assay.adapters.kube_config import REQUEST_SECONDS, KubeConfig
from assay.adapters.kube_errors import (
    KubeError,
    KubeRefused,
    KubeUnavailable,
    WatchExpired,
    decode_status,
    decoded,
    failure,
    no_answer,
)

__all__ = [
    "JSON",
    "KubeClient",
    "KubeError",
    "KubeRefused",
    "KubeUnavailable",
    "ListPage",
    "WatchEvent",
    "WatchExpired",
]

JSON = dict[str, Any]

PAGE_SIZE = 500
INACTIVITY_SECONDS = 100.0
"""The API server sends a bookmark about every minute: a watch that is silent longer is dead (cases.md D4)."""

JSON_ONLY = "application/json"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
MERGE_PATCH = "application/merge-patch+json"


class WatchEvent(msgspec.Struct):
    """One event of a watch; `object` is still JSON."""

    type: str
    object: msgspec.Raw


class _ListMeta(msgspec.Struct):
    resource_version: str = msgspec.field(default="", name="resourceVersion")
    continue_: str = msgspec.field(default="", name="continue")


class ListPage(msgspec.Struct):
    """One page of a list; each item is still JSON."""

    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None
    """Lists of bare metadata have null where nothing is listed."""

    def __iter__(self) -> Iterator[msgspec.Raw]:
        return iter(self.items or ())


_decode_page = msgspec.json.Decoder(ListPage).decode
_decode_event = msgspec.json.Decoder(WatchEvent).decode


class KubeClient:
    """Requests to one API server. Use as an async context manager; raises `KubeError`s only."""

    def __init__(
        self,
        config: KubeConfig,
        connections: int = 32,
        answered: Callable[[str, str], None] = lambda verb, code: None,
        request_seconds: float = REQUEST_SECONDS,
    ) -> None:
        """`answered` is told of each request: its verb, and the HTTP status or "none" for no answer."""
        self.config, self._answered = config, answered
        self._connections, self._request_seconds = connections, request_seconds
        self._session: aiohttp.ClientSession | None = None
        self._watches: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> "KubeClient":
        context = self.config.ssl_context()
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=context, limit=self._connections),
            timeout=aiohttp.ClientTimeout(total=self._request_seconds),
        )
        # Watches hold their connections, so they must not take those of requests.
        self._watches = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=context, limit=0),
            timeout=aiohttp.ClientTimeout(total=None, connect=REQUEST_SECONDS, sock_read=INACTIVITY_SECONDS),
            read_bufsize=1 << 20,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        for session in (self._session, self._watches):
            if session is not None:
                await session.close()

    async def get(self, path: str, parameters: Mapping[str, str] | None = None) -> JSON:
        """One object, or one list of few objects."""
        return decoded(await self.request("GET", path, parameters=parameters))

    async def create(self, path: str, body: JSON) -> JSON:
        """Create an object in the collection at `path`."""
        return decoded(await self.request("POST", path, body))

    async def replace(self, path: str, body: JSON) -> JSON:
        """Replace the object at `path`; its resourceVersion guards against lost updates."""
        return decoded(await self.request("PUT", path, body))

    async def merge(self, path: str, body: JSON) -> JSON:
        """JSON merge patch of the object at `path`: None removes a field, lists are replaced."""
        return decoded(await self.request("PATCH", path, body, content_type=MERGE_PATCH))

    async def pages(
        self, path: str, parameters: Mapping[str, str], *, metadata_only: bool = False
    ) -> AsyncIterator[ListPage]:
        """A list in pages of one consistent version. Raises WatchExpired if that version ages out."""
        accept = METADATA_LIST if metadata_only else JSON_ONLY
        query = {**parameters, "limit": str(PAGE_SIZE)}
        while True:
            try:
                page = _decode_page(await self.request("GET", path, parameters=query, accept=accept))
            except KubeRefused as error:
                if error.status == 410:
                    raise WatchExpired(str(error)) from error
                raise
            yield page
            if not page.metadata.continue_:
                return
            query["continue"] = page.metadata.continue_

    async def watch(
        self, path: str, parameters: Mapping[str, str], version: str
    ) -> AsyncIterator[WatchEvent]:
        """Events after `version` until the server ends the stream, bookmarks included.

        Raises WatchExpired when `version` is too old, KubeUnavailable when the stream breaks or is silent.
        """
        query = {**parameters, "watch": "true", "allowWatchBookmarks": "true", "resourceVersion": version}
        assert self._watches is not None
        try:
            async with self._watches.get(
                self.config.server + path, params=query, headers=self._headers()
            ) as answer:
                self._answered("WATCH", str(answer.status))
                if answer.status != 200:
                    raise failure(answer.status, await answer.read(), answer.headers)
                async for line in _lines(answer.content):
                    event = _decode_event(line)
                    if event.type == "ERROR":
                        raise _watch_error(event.object)
                    yield event
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise KubeUnavailable(f"watch of {path}: {error or type(error).__name__}") from error
        except KubeRefused as error:
            if error.status == 410:
                raise WatchExpired(str(error)) from error
            raise

    async def request(
        self,
        method: str,
        path: str,
        body: JSON | None = None,
        *,
        parameters: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        accept: str = JSON_ONLY,
    ) -> bytes:
        """One request; the body of the answer."""
        assert self._session is not None
        headers = self._headers(accept)
        data = None
        if body is not None:
            data, headers["Content-Type"] = msgspec.json.encode(body), content_type
        try:
            async with self._session.request(
                method, self.config.server + path, params=parameters, data=data, headers=headers
            ) as answer:
                content = await answer.read()
                self._answered(method, str(answer.status))
                if answer.status >= 400:
                    raise failure(answer.status, content, answer.headers)
                return content
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            self._answered(method, "none")
            raise no_answer(error, untouched=isinstance(error, aiohttp.ClientConnectorError)) from error

    def _headers(self, accept: str = JSON_ONLY) -> dict[str, str]:
        headers = {"Accept": accept, "User-Agent": "assay-operator"}
        token = self.config.bearer()
        if token:
            headers["Authorization"] = f"Bearer {token}"
        return headers


async def _lines(stream: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Lines of any length; aiohttp's own reader has a limit that a large object exceeds."""
    parts: list[bytes] = []
    async for chunk in stream.iter_any():
        *complete, rest = chunk.split(b"\n")
        for line in complete:
            parts.append(line)
            whole = b"".join(parts)
            parts.clear()
            if whole:
                yield whole
        if rest:
            parts.append(rest)
        # A burst of events must not keep the loop from everything else.
        await asyncio.sleep(0)


def _watch_error(raw: msgspec.Raw) -> KubeError:
    said = decode_status(raw)
    if said.code == 410:
        return WatchExpired(said.message)
    return KubeUnavailable(f"watch ended with {said.code} {said.reason}: {said.message}")
