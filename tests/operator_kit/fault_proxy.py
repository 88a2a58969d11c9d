"""A reverse proxy between an operator and the API server, which refuses, loses and delays as it is told."""

import asyncio
import contextlib
import json
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
from aiohttp import web

from assay.adapters.kube_config import load_kube_config

_HOP_BY_HOP = frozenset({"host", "connection", "transfer-encoding", "content-length", "content-encoding"})


@dataclass(frozen=True)
class Refusal:
    """An answer instead of the API server's. With `after` the request has been carried out all the same.

    Status 0 is no answer at all: the connection breaks.
    """

    status: int
    reason: str = "InternalError"
    after: bool = False
    retry_after: int | None = None

    @property
    def name(self) -> str:
        what = str(self.status) if self.status else "connection broken"
        return f"{what}{' after it was done' if self.after else ''}"


@dataclass(frozen=True)
class Asked:
    """What a request wants: verb, resource (`jobs`, `evaluationruns/status`), whether it is a watch."""

    method: str
    resource: str
    watch: bool


Plan = Callable[[Asked], Refusal | None]


@dataclass(frozen=True)
class Lag:
    """How late a watch is: each event up to `seconds`, in order; after so many the stream breaks."""

    seconds: float
    cut_after: int
    chance: random.Random


class FaultProxy:
    """Serves plain HTTP on loopback. `requests` counts what was asked, `refused` what it did about it."""

    def __init__(
        self,
        plan: Plan | None = None,
        lag: Lag | None = None,
        tell: Callable[[Asked, bytes], None] | None = None,
    ) -> None:
        self._plan, self._lag = plan or (lambda _: None), lag
        self._tell = tell or (lambda _asked, _chunk: None)
        """Told of each request when it comes, and of each piece of a watch when it is passed on."""
        self.requests: Counter[Asked] = Counter()
        self.refused: Counter[str] = Counter()
        self.delayed = 0
        self.cuts = 0
        self.port = 0
        self._readers: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def serving(self, folder: Path) -> AsyncIterator[Path]:
        """Path of a kubeconfig, below `folder`, that leads through the proxy."""
        config = load_kube_config()
        connector = aiohttp.TCPConnector(ssl=config.ssl_context(), limit=0)
        timeout = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(
            config.server, connector=connector, timeout=timeout, auto_decompress=False
        ) as self._session:
            app = web.Application(client_max_size=16 << 20)
            app.router.add_route("*", "/{path:.*}", self._handle)
            runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            self.port = runner.addresses[0][1]
            try:
                yield _kubeconfig(folder, self.port)
            finally:
                await runner.cleanup()
                await asyncio.gather(*self._readers, return_exceptions=True)

    def _read(self, reading: asyncio.Task[None]) -> None:
        self._readers.discard(reading)
        if not reading.cancelled():
            reading.exception()  # the API server ended the watch: the reader ends, too

    @property
    def writes(self) -> Counter[Asked]:
        """What was asked and changes something."""
        return Counter({asked: count for asked, count in self.requests.items() if asked.method != "GET"})

    def describe(self) -> str:
        """One line for a person."""
        parts = [f"{count} × {what}" for what, count in sorted(self.refused.items())]
        if self._lag:
            parts.append(
                f"{self.delayed} watch events up to {self._lag.seconds:.0f} s late, {self.cuts} watches cut"
            )
        return "; ".join(parts)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        asked = _asked(request)
        self.requests[asked] += 1
        self._tell(asked, b"")
        refusal = self._plan(asked)
        if refusal is not None:
            self.refused[f"{asked.method} {asked.resource}{' (watch)' * asked.watch}: {refusal.name}"] += 1
            if not refusal.after:
                return _refuse(request, refusal)
        body = await request.read()
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _HOP_BY_HOP}
        try:
            async with self._session.request(
                request.method, request.rel_url, data=body or None, headers=headers
            ) as answer:
                if refusal is not None:
                    await answer.read()
                    return _refuse(request, refusal)
                return await self._pass_on(request, answer, asked)
        except aiohttp.ClientError:
            return _refuse(request, Refusal(0))

    async def _pass_on(
        self, request: web.Request, answer: aiohttp.ClientResponse, asked: Asked
    ) -> web.StreamResponse:
        headers = {name: value for name, value in answer.headers.items() if name.lower() not in _HOP_BY_HOP}
        encoding = answer.headers.get("Content-Encoding")
        if encoding:
            headers["Content-Encoding"] = encoding
        if not asked.watch:
            return web.Response(status=answer.status, headers=headers, body=await answer.read())
        response = web.StreamResponse(status=answer.status, headers=headers)
        await response.prepare(request)
        # A reader that has gone ends the stream like any other.
        with contextlib.suppress(ConnectionError, aiohttp.ClientError):
            if self._lag is None or answer.status != 200:
                async for chunk in answer.content.iter_any():
                    self._tell(asked, chunk)
                    await response.write(chunk)
            else:
                await self._trickle(request, answer, response, self._lag)
        return response

    async def _trickle(
        self, request: web.Request, answer: aiohttp.ClientResponse, response: web.StreamResponse, lag: Lag
    ) -> None:
        queue: asyncio.Queue[tuple[float, bytes] | None] = asyncio.Queue()

        async def read() -> None:
            rest = b""
            try:
                async for chunk in answer.content.iter_any():
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in lines:
                        queue.put_nowait(
                            (time.monotonic() + lag.chance.uniform(0, lag.seconds), line + b"\n")
                        )
            finally:
                queue.put_nowait(None)

        reading = asyncio.create_task(read())
        self._readers.add(reading)
        reading.add_done_callback(self._read)
        passed = 0
        try:
            while (item := await queue.get()) is not None:
                due, line = item
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                await response.write(line)
                passed += 1
                self.delayed += 1
                if passed >= lag.cut_after:
                    self.cuts += 1
                    _break(request)
                    return
        finally:
            reading.cancel()


def _asked(request: web.Request) -> Asked:
    parts = request.path.strip("/").split("/")
    after_group = parts[2:] if parts[0] == "api" else parts[3:]
    if len(after_group) >= 3 and after_group[0] == "namespaces":
        after_group = after_group[2:]
    resource = after_group[0] if after_group else request.path
    if len(after_group) > 2:
        resource = f"{resource}/{after_group[2]}"
    return Asked(request.method, resource, request.query.get("watch") in ("1", "true"))


def _refuse(request: web.Request, refusal: Refusal) -> web.Response:
    if refusal.status == 0:
        _break(request)
        return web.Response()
    said = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "reason": refusal.reason,
        "code": refusal.status,
        "message": "injected by the test",
    }
    headers = {} if refusal.retry_after is None else {"Retry-After": str(refusal.retry_after)}
    return web.json_response(said, status=refusal.status, headers=headers)


def _break(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()


def _kubeconfig(folder: Path, port: int) -> Path:
    path = folder / "through-the-proxy.kubeconfig"
    place = {"cluster": "proxy", "user": "proxy"}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "proxy", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "proxy", "user": {}}],
        "contexts": [{"name": "proxy", "context": place}],
        "current-context": "proxy",
    }
    path.write_text(json.dumps(document))
    return path
