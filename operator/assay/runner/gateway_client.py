"""The runner's only way out: the gateway in the cluster, which holds the keys and the storage identity."""

import asyncio
import hashlib
import json
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

import aiohttp
from pydantic import ValidationError

from assay.api.evidence import EvidenceFile

CHUNK = 1 << 18
_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})
_CONNECT_SECONDS = 10.0
_IDLE_SECONDS = 120.0
_LONGEST_PAUSE = 5.0
_UNAUTHENTICATED_TRIES = 5

Pieces = Callable[[], Iterator[bytes]]
"""Makes the body anew for each try."""


class GatewayError(RuntimeError):
    """The gateway could not be used."""


class GatewayUnavailable(GatewayError):
    """No usable answer within the time given: connection lost, or 503 because the storage is away."""


class OutOfTime(GatewayError):
    """The gateway raised no objection, but there was more to send than the time given allows."""


class GatewayRefused(GatewayError):
    """The gateway answered that this can never work. `code` is its `X-Assay-Error`, or the HTTP status."""

    def __init__(self, what: str, status: int, code: str, message: str) -> None:
        super().__init__(f"{what}: the gateway refused with {code}: {message}")
        self.status = status
        self.code = code


class DigestMismatch(GatewayError):
    """Bytes that arrived are not those that were asked for."""


class Deadline:
    """A point in monotonic time."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    @property
    def left(self) -> float:
        return self._end - time.monotonic()

    def at_least(self, seconds: float) -> "Deadline":
        """This one, or a later one that leaves so much time from now on."""
        return Deadline(max(self.left, seconds))


class GatewayClient:
    """Task archives, evidence and the manifest. Use as an async context manager.

    Every request reads the token file again, because the kubelet rotates it. Lost connections and answers
    that ask for patience are repeated with growing pauses until the deadline of the call.
    """

    def __init__(
        self, base_url: str, token_file: Path, on_token: Callable[[str], None] = lambda token: None
    ) -> None:
        self._base = base_url.rstrip("/")
        self._token_file = token_file
        self._on_token = on_token
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS, sock_read=_IDLE_SECONDS)
        self._session = aiohttp.ClientSession(
            timeout=timeout,
            connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=None),
            auto_decompress=False,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session:
            await self._session.close()

    @property
    def session(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise RuntimeError("GatewayClient is used outside of its context")
        return self._session

    def headers(self) -> dict[str, str]:
        """Authorization with the token as it is now. Raises GatewayError where there is no token."""
        try:
            token = self._token_file.read_text().strip()
        except OSError as error:
            raise GatewayError(
                f"cannot read the gateway token {self._token_file}: {error.strerror}; "
                "the pod projects it into the runner container"
            ) from error
        self._on_token(token)
        return {"Authorization": f"Bearer {token}"}

    def model_url(self, index: int, rest: str) -> str:
        """Where calls to the variant's model of this index go."""
        return f"{self._base}/v1/models/{index}/{rest}"

    async def fetch_archive(self, digest: str, target: Path, deadline: Deadline) -> None:
        """Download the task archive and check it. `target` exists only if its digest is right.

        Raises DigestMismatch, GatewayRefused, GatewayUnavailable, OutOfTime.
        """
        await self._fetch("task archive", "tasks", digest, "the ledger froze", target, deadline)

    async def fetch_artifacts(self, digest: str, target: Path, deadline: Deadline) -> None:
        """Download the artefacts that this try judges; as `fetch_archive`."""
        await self._fetch(
            "artefacts", "artifacts", digest, "the judged try's manifest lists", target, deadline
        )

    async def _fetch(
        self, what: str, route: str, digest: str, stated: str, target: Path, deadline: Deadline
    ) -> None:
        partial = target.with_name(target.name + ".partial")

        async def once() -> None:
            found = hashlib.sha256()
            url = f"{self._base}/v1/{route}/{digest}"
            async with self.session.get(url, headers=self.headers()) as answer:
                await _check(f"fetching {what} {digest}", answer)
                with partial.open("wb") as file:
                    async for chunk in answer.content.iter_chunked(CHUNK):
                        found.update(chunk)
                        file.write(chunk)
            if f"sha256:{found.hexdigest()}" != digest:
                partial.unlink()
                raise DigestMismatch(
                    f"the stored {what} has digest sha256:{found.hexdigest()}, but {stated} {digest}"
                )
            partial.replace(target)

        await self._patiently(f"fetching {what} {digest}", once, deadline)

    async def put_evidence(
        self, path: str, pieces: Pieces, size: int, sha256: str, deadline: Deadline
    ) -> EvidenceFile:
        """Upload one object below the try's prefix; raises as `fetch_archive` does."""
        wanted = EvidenceFile(path=path, size=size, sha256=sha256)
        received: list[EvidenceFile] = []

        async def once() -> None:
            headers = self.headers() | {
                "Content-Length": str(size),
                "Content-Digest-Sha256": sha256,
                "Content-Type": "application/octet-stream",
            }
            url = f"{self._base}/v1/evidence/{quote(path)}"
            async with self.session.put(url, data=_body(pieces), headers=headers) as answer:
                await _check(f"uploading {path}", answer)
                received.append(_evidence_file(path, await answer.read()))
            if received[-1] != wanted:
                raise DigestMismatch(
                    f"uploading {path}: the gateway stored {received[-1].size} bytes, {received[-1].sha256}"
                )

        await self._patiently(f"uploading {path}", once, deadline)
        return received[-1]

    async def put_manifest(self, manifest: bytes, deadline: Deadline) -> str:
        """Write the manifest, a try's last object. Returns its digest. Raises as `fetch_archive` does."""
        digest = f"sha256:{hashlib.sha256(manifest).hexdigest()}"

        async def once() -> None:
            headers = self.headers() | {"Content-Type": "application/json"}
            async with self.session.put(
                f"{self._base}/v1/manifest", data=manifest, headers=headers
            ) as answer:
                await _check("writing the manifest", answer)
                stored = json.loads(await answer.read()).get("digest")
            if stored != digest:
                raise DigestMismatch(f"writing the manifest: the gateway stored {stored}, not {digest}")

        await self._patiently("writing the manifest", once, deadline)
        return digest

    async def _patiently(self, what: str, once: Callable[[], Awaitable[None]], deadline: Deadline) -> None:
        pause, tries, last = 0.2, 0, ""
        if deadline.left <= 0:
            raise OutOfTime(f"{what}: no time was left to begin it")
        while True:
            tries += 1
            try:
                async with asyncio.timeout(deadline.left) as given:
                    return await once()
            except GatewayRefused as error:
                # TokenReview can lag behind a pod that has only just been bound.
                patient = error.status in _AGAIN or (error.status == 401 and tries < _UNAUTHENTICATED_TRIES)
                if not patient:
                    raise
                last = str(error)
            except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
                if given.expired() and tries == 1:
                    raise OutOfTime(f"{what}: no time was left to finish it") from error
                last = f"{what}: {error or type(error).__name__}"
            wait = pause * random.uniform(0.5, 1.0)  # noqa: S311
            if deadline.left <= wait:
                raise GatewayUnavailable(
                    f"{last} (tried {tries} times; is the gateway up, can it reach its storage?)"
                )
            await asyncio.sleep(wait)
            pause = min(pause * 2, _LONGEST_PAUSE)


async def _body(pieces: Pieces) -> AsyncIterator[bytes]:
    for piece in pieces():
        yield piece


async def _check(what: str, answer: aiohttp.ClientResponse) -> None:
    if answer.status < 300:
        return
    body = (await answer.content.read(4096)).decode(errors="replace")
    try:
        message = str(json.loads(body)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        message = body.strip()[:200] or (answer.reason or "no reason given")
    code = answer.headers.get("X-Assay-Error", f"HTTP {answer.status}")
    raise GatewayRefused(what, answer.status, code, message)


def _evidence_file(path: str, body: bytes) -> EvidenceFile:
    try:
        return EvidenceFile.read_leniently(body)
    except ValidationError as error:
        raise ValueError(f"uploading {path}: the gateway's answer is not an EvidenceFile") from error
