"""A provider whose answers a test decides."""

import asyncio
from collections.abc import Awaitable, Callable

from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.gateway.harness import Runner

KEY = "sk-proj-the-real-key"


CHAT = "/v1/models/0/chat/completions"


Answering = Callable[[web.Request], Awaitable[web.StreamResponse]]


Connect = Callable[..., Awaitable[Runner]]


class Provider:
    """A provider whose next answers the test decides; it keeps the requests that reached it."""

    def __init__(self) -> None:
        self.requests: list[web.Request] = []
        self.bodies: list[bytes] = []
        self.answer: Answering = self._plain
        self.gone = asyncio.Event()
        app = web.Application(client_max_size=1 << 30)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._server = TestServer(app)

    async def start(self) -> None:
        await self._server.start_server(shutdown_timeout=1)

    async def stop(self) -> None:
        await self._server.close()

    @property
    def url(self) -> str:
        return str(self._server.make_url(""))

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        self.bodies.append(await request.read())
        try:
            return await self.answer(request)
        except asyncio.CancelledError:
            self.gone.set()
            raise

    async def _plain(self, _: web.Request) -> web.StreamResponse:
        return web.json_response({"choices": []}, headers={"x-request-id": "r1"})
