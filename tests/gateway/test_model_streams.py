"""Streamed answers of a provider, from the runner's side and the provider's."""

import asyncio

import pytest
from aiohttp import ClientError, web

from tests.gateway.model_provider import CHAT, Connect, Provider

pytestmark = [pytest.mark.api, pytest.mark.timeout(180)]


class TestStreaming:
    async def test_each_chunk_comes_at_once(self, connect: Connect, provider: Provider) -> None:
        """The provider waits for the reader: any buffering on the way would stop both for ever."""
        read = asyncio.Semaphore(0)

        async def events(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
            await response.prepare(request)
            for number in range(5):
                await response.write(b"data: %d\n\n" % number)
                await read.acquire()
            await response.write(b"data: [DONE]\n\n")
            return response

        provider.answer = events
        runner = await connect(provider.url)
        async with runner.session.post(runner.url + CHAT, headers=runner.headers()) as answer:
            assert answer.headers["Content-Type"] == "text/event-stream"
            for number in range(5):
                assert await answer.content.readany() == b"data: %d\n\n" % number
                read.release()
            assert await answer.content.read() == b"data: [DONE]\n\n"

    async def test_a_caller_that_goes_away_ends_the_call_at_the_provider(
        self, connect: Connect, provider: Provider
    ) -> None:
        async def endless(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse()
            await response.prepare(request)
            await response.write(b"data: 0\n\n")
            await asyncio.Event().wait()
            return response

        provider.answer = endless
        runner = await connect(provider.url)
        async with runner.session.post(runner.url + CHAT, headers=runner.headers()) as answer:
            await answer.content.readany()
        await asyncio.wait_for(provider.gone.wait(), 20)

    async def test_a_caller_that_goes_away_before_the_answer_ends_the_call_too(
        self, connect: Connect, provider: Provider
    ) -> None:
        reached = asyncio.Event()

        async def thinking(_: web.Request) -> web.StreamResponse:
            reached.set()
            await asyncio.Event().wait()
            return web.Response()

        provider.answer = thinking
        runner = await connect(provider.url)
        call = asyncio.create_task(runner.call("POST", CHAT, b"{}"))
        await reached.wait()
        call.cancel()
        await asyncio.wait_for(provider.gone.wait(), 20)

    @pytest.mark.parametrize("announced", [None, 1000])
    async def test_a_stream_that_the_provider_cuts_is_visibly_cut(
        self, connect: Connect, provider: Provider, announced: int | None
    ) -> None:
        async def cut(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse()
            response.content_length = announced
            await response.prepare(request)
            await response.write(b"data: 0\n\n")
            assert request.transport
            request.transport.close()
            return response

        provider.answer = cut
        runner = await connect(provider.url)
        async with runner.session.post(runner.url + CHAT, headers=runner.headers()) as answer:
            assert await answer.content.readany() == b"data: 0\n\n"
            with pytest.raises(ClientError):
                await answer.content.read()

    async def test_a_slow_reader_slows_the_provider(self, connect: Connect, provider: Provider) -> None:
        """Without it a gateway's memory would hold what hundreds of agents have not read yet."""
        written = 0
        total = 64 << 20

        async def fast(request: web.Request) -> web.StreamResponse:
            nonlocal written
            response = web.StreamResponse()
            await response.prepare(request)
            while written < total:
                await response.write(b"x" * 65536)
                written += 65536
            return response

        provider.answer = fast
        runner = await connect(provider.url)
        async with runner.session.post(runner.url + CHAT, headers=runner.headers()) as answer:
            await answer.content.readany()
            before = -1
            while written != before:
                before = written
                await asyncio.sleep(0.5)
            assert written < total
            rest = sum([len(chunk) async for chunk in answer.content.iter_any()])
            assert rest > total - written
