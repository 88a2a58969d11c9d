"""A gateway in the test's own process: storage in memory, a scripted provider, faults on demand."""

import asyncio
import contextlib
import hashlib
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from assay.api.evidence import ARTIFACTS, CallRecord, EvidenceFile, Manifest

Provider = Callable[[web.Request, dict[str, Any]], Awaitable[web.StreamResponse]]
TOKEN = "eyJhbGciOiJSUzI1NiJ9.eyJhdWQiOiJhc3NheS1nYXRld2F5In0.c2lnbmF0dXJlLW9mLXRoZS1wb2Q"


async def no_provider(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
    return web.json_response({"error": {"message": "no provider in this test"}}, status=500)


@dataclass
class GatewayDouble:
    """What the runner sent, and how the gateway is to behave."""

    archives: dict[str, bytes] = field(default_factory=dict)
    artifacts: dict[str, bytes] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    order: list[str] = field(default_factory=list)
    manifest_bytes: bytes | None = None
    provider: Provider = no_provider
    calls: list[tuple[str, dict[str, Any], dict[str, str]]] = field(default_factory=list)
    refuse_uploads: int = 0
    """Answer so many uploads with 503 first; -1: all of them."""
    hangs_on: str = ""
    """Uploads of paths that begin so are read and never answered."""
    url: str = ""
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def manifest(self) -> Manifest:
        assert self.manifest_bytes is not None, f"no manifest; files: {sorted(self.files)}"
        return Manifest.model_validate_json(self.manifest_bytes)

    @property
    def records(self) -> list[CallRecord]:
        lines = b"".join(data for path, data in sorted(self.files.items()) if path.startswith("calls/"))
        return [CallRecord.model_validate_json(line) for line in lines.splitlines()]

    def next_try(self) -> Manifest:
        """The manifest of the try that has ended; what it left to be judged can be read from now on."""
        manifest = self.manifest
        for file in manifest.files:
            if file.path == ARTIFACTS:
                self.artifacts[file.sha256] = self.files[file.path]
        self.files, self.order, self.manifest_bytes = {}, [], None
        return manifest

    def everything(self) -> bytes:
        """All bytes that left the pod."""
        return b"\n".join([*self.files.values(), self.manifest_bytes or b""])

    def application(self) -> web.Application:
        app = web.Application(client_max_size=1 << 30)
        app.router.add_get("/v1/tasks/{digest}", self._task)
        app.router.add_get("/v1/artifacts/{digest}", self._artifacts)
        app.router.add_put("/v1/evidence/{path:.*}", self._evidence)
        app.router.add_put("/v1/manifest", self._manifest)
        app.router.add_post("/v1/models/{index}/{rest:.*}", self._model)
        return app

    def _check(self, request: web.Request) -> None:
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            raise web.HTTPUnauthorized(headers={"X-Assay-Error": "Unauthenticated"})

    async def _task(self, request: web.Request) -> web.StreamResponse:
        self._check(request)
        data = self.archives.get(request.match_info["digest"])
        if data is None:
            return web.json_response(
                {"error": {"code": "UnknownArchive", "message": "S3 has no such archive"}},
                status=404,
                headers={"X-Assay-Error": "UnknownArchive"},
            )
        return web.Response(body=data)

    async def _artifacts(self, request: web.Request) -> web.StreamResponse:
        self._check(request)
        data = self.artifacts.get(request.match_info["digest"])
        if data is None:
            return web.Response(status=404, headers={"X-Assay-Error": "UnknownArtifacts"})
        return web.Response(body=data)

    async def _evidence(self, request: web.Request) -> web.StreamResponse:
        self._check(request)
        data = await request.read()
        if self.refuse_uploads:
            self.refuse_uploads -= self.refuse_uploads > 0
            return web.json_response(
                {"error": {"code": "StorageUnavailable", "message": "S3 is away"}},
                status=503,
                headers={"X-Assay-Error": "StorageUnavailable", "Retry-After": "0"},
            )
        if self.manifest_bytes is not None:
            return web.Response(status=409, headers={"X-Assay-Error": "EvidenceSealed"})
        path = request.match_info["path"]
        if self.hangs_on and path.startswith(self.hangs_on):
            await asyncio.Event().wait()
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        if request.headers.get("Content-Digest-Sha256", digest) != digest:
            return web.Response(status=422, headers={"X-Assay-Error": "DigestMismatch"})
        self.files[path] = data
        self.order.append(path)
        self.changed.set()
        return web.json_response(EvidenceFile(path=path, size=len(data), sha256=digest).model_dump())

    async def _manifest(self, request: web.Request) -> web.StreamResponse:
        self._check(request)
        data = await request.read()
        if self.manifest_bytes not in (None, data):
            return web.Response(status=409, headers={"X-Assay-Error": "ManifestConflict"})
        listed = {file.path: file.size for file in Manifest.model_validate_json(data).files}
        stored = {path: len(body) for path, body in self.files.items()}
        if any(stored.get(path) != size for path, size in listed.items()):
            return web.Response(status=422, headers={"X-Assay-Error": "EvidenceMissing"})
        self.manifest_bytes = data
        self.order.append("manifest.json")
        return web.json_response({"digest": f"sha256:{hashlib.sha256(data).hexdigest()}"})

    async def _model(self, request: web.Request) -> web.StreamResponse:
        self._check(request)
        body = json.loads(await request.read())
        self.calls.append((request.path, body, dict(request.headers)))
        return await self.provider(request, body)


@contextlib.asynccontextmanager
async def serving(gateway: GatewayDouble, listener: socket.socket) -> AsyncIterator[GatewayDouble]:
    """The gateway, served on this socket."""
    runner = web.AppRunner(
        gateway.application(), access_log=None, shutdown_timeout=1, handler_cancellation=True
    )
    await runner.setup()
    await web.SockSite(runner, listener).start()
    gateway.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    try:
        yield gateway
    finally:
        await runner.cleanup()
