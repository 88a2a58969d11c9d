"""Routes, and what happens around each: who calls, what it is counted as, how an error looks."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from aiohttp import web

from assay.adapters.kube import KubeClient, KubeError
from assay.adapters.s3 import AsyncS3Store, StorageError
from assay.gateway.artifacts import Artifacts
from assay.gateway.auth import Authenticator, Caller
from assay.gateway.errors import ERROR_HEADER, Code, GatewayError, from_http, from_kube, from_storage
from assay.gateway.evidence import Evidence
from assay.gateway.manifest import Manifests
from assay.gateway.metrics import Metrics, status_class
from assay.gateway.models import Models
from assay.gateway.secrets import ProviderKeys
from assay.gateway.settings import Settings
from assay.gateway.streams import BrokenStream
from assay.gateway.tasks import TaskArchives

log = logging.getLogger("assay.gateway")

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
CallerHandler = Callable[[web.Request, Caller], Awaitable[web.StreamResponse]]
CALLER = web.RequestKey("caller", Caller)
LOGGED_PATH = 400
PROBES = frozenset({"/healthz", "/readyz", "/metrics"})


class Gateway:
    """The parts of the service, and how many requests are under way."""

    def __init__(self, settings: Settings, kube: KubeClient) -> None:
        own, namespace = settings.gateway, settings.kube.namespace
        self.metrics = Metrics()
        self.draining = False
        self.in_flight = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._store = AsyncS3Store(settings.storage)
        self._authenticator = Authenticator(kube, namespace, own.verdict_seconds)
        self._models = Models(ProviderKeys(kube, namespace, own.secret_seconds), own, self.metrics)
        self._evidence = Evidence(self._store, own, self.metrics)
        self._manifests = Manifests(self._store, own)
        self._archives = TaskArchives(self._store, self.metrics)
        self._artifacts = Artifacts(self._store)

    def application(self) -> web.Application:
        """The aiohttp application; `close` is called by its cleanup."""
        app = web.Application(middlewares=[self._observe])
        app.router.add_get("/healthz", _alive)
        app.router.add_get("/readyz", self._ready)
        app.router.add_get("/metrics", self.metrics.scrape)
        app.router.add_get("/v1/tasks/{digest}", self._known(self._archives.get), allow_head=False)
        app.router.add_get("/v1/artifacts/{digest}", self._known(self._artifacts.get), allow_head=False)
        app.router.add_put("/v1/evidence/{path:.+}", self._known(self._evidence.put))
        app.router.add_put("/v1/manifest", self._known(self._manifests.put))
        for method in ("GET", "POST"):
            app.router.add_route(method, "/v1/models/{index}/{rest:.+}", self._known(self._models.forward))
        app.on_cleanup.append(self._close)
        return app

    async def idle(self) -> None:
        """Return when no request is under way."""
        await self._idle.wait()

    def _known(self, handler: CallerHandler) -> Handler:
        async def with_caller(request: web.Request) -> web.StreamResponse:
            caller = await self._authenticator.caller(request.headers.get("Authorization"), request.remote)
            request[CALLER] = caller
            return await handler(request, caller)

        return with_caller

    async def _ready(self, _: web.Request) -> web.Response:
        # S3 is no part of it: without endpoints callers could not be told that S3 is away.
        if self.draining:
            return web.Response(status=503, text="draining\n")
        return web.Response(text="ok\n")

    @web.middleware
    async def _observe(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path in PROBES:
            return await handler(request)
        started = time.monotonic()
        code = "aborted"
        self._under_way(+1)
        try:
            response = await _answered(request, handler)
            if self.draining and not response.prepared:
                # The caller's next request then opens a connection to the other replica.
                response.force_close()
            code = response.headers.get(ERROR_HEADER) or status_class(response.status)
            return response
        except BrokenStream:
            code = "cut"
            raise
        finally:
            self._under_way(-1)
            self._record(request, code, time.monotonic() - started)

    def _under_way(self, change: int) -> None:
        self.in_flight += change
        self.metrics.in_flight.set(self.in_flight)
        if self.in_flight:
            self._idle.clear()
        else:
            self._idle.set()

    def _record(self, request: web.Request, code: str, seconds: float) -> None:
        resource = request.match_info.route.resource
        route = resource.canonical if resource is not None else "unknown"
        self.metrics.requests.labels(route, code).inc()
        self.metrics.seconds.labels(route).observe(seconds)
        caller = request.get(CALLER)
        job = caller.spec.identity.job_name if caller else "-"
        log.info("%s code=%s seconds=%.3f job=%s", _named(request), code, seconds, job)

    async def _close(self, _: web.Application) -> None:
        await self._models.close()
        await self._store.close()


async def _alive(_: web.Request) -> web.Response:
    return web.Response(text="ok\n")


def _named(request: web.Request) -> str:
    # The raw path: decoded, a caller could write lines of its own into the log.
    return f"{request.method} {request.raw_path.partition('?')[0][:LOGGED_PATH]}"


async def _answered(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except GatewayError as error:
        failure = error
    except StorageError as error:
        failure = from_storage(error)
    except KubeError as error:
        failure = from_kube(error)
    except web.HTTPException as error:
        failure = from_http(error)
    except (BrokenStream, ConnectionError):
        raise
    except Exception:
        log.exception("%s failed", _named(request))
        failure = GatewayError(500, Code.INTERNAL, "the gateway has a defect; its log says more")
    log.warning("%s: %s: %s", _named(request), failure.code, " ".join(failure.message.split()))
    return failure.response()
