"""A gateway that is told to stop, or that is killed, in the middle of what runners are doing."""

import asyncio
import signal
from collections.abc import AsyncIterator

import pytest
from aiohttp import ClientError, web
from aiohttp.test_utils import TestServer

from assay.adapters.s3 import S3Store
from assay.api.tryspec import ModelTarget, TrySpec
from assay.core.names import try_prefix
from tests.gateway.conftest import StartGateway, keys
from tests.gateway.harness import AttemptPod, Evals, GatewayProcess, Runner, try_spec

pytestmark = [pytest.mark.api, pytest.mark.timeout(180)]

MIB = 1 << 20
CHAT = "/v1/models/0/chat/completions"


class SlowUpload:
    """A body of 20 MiB whose second half waits for the test."""

    def __init__(self) -> None:
        self.half, self.go_on = asyncio.Event(), asyncio.Event()

    async def __call__(self) -> AsyncIterator[bytes]:
        for _ in range(10):
            yield b"a" * MIB
        self.half.set()
        await self.go_on.wait()
        for _ in range(10):
            yield b"b" * MIB


class SlowStream:
    """A provider that sends one event, waits for the test, and sends the last."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        app = web.Application()
        app.router.add_post("/{path:.*}", self._answer)
        self.server = TestServer(app)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b"data: 0\n\n")
        await self.go_on.wait()
        await response.write(b"data: [DONE]\n\n")
        return response


@pytest.fixture
async def stream() -> AsyncIterator[SlowStream]:
    started = SlowStream()
    await started.server.start_server(shutdown_timeout=1)
    yield started
    started.go_on.set()
    await started.server.close()


def model(stream: SlowStream) -> ModelTarget:
    return ModelTarget(role="main", name="m", api="OpenAIChat", endpoint=str(stream.server.make_url("/v1")))


async def test_uploads_and_streams_under_way_are_finished(
    start_gateway: StartGateway, evals: Evals, bucket: str, store: S3Store, stream: SlowStream
) -> None:
    gateway = start_gateway()
    spec = try_spec(evals.name, bucket, [model(stream)])
    pod = evals.attempt(spec)
    body = SlowUpload()
    async with Runner(gateway.url, pod.token()) as runner:
        upload = asyncio.create_task(runner.upload("f", body()))
        async with runner.session.post(runner.url + CHAT, headers=runner.headers()) as answer:
            assert await answer.content.readany() == b"data: 0\n\n"
            await body.half.wait()
            await asyncio.to_thread(gateway.terminate)
            await refuses_connections(gateway)
            body.go_on.set()
            assert (await upload).json["size"] == 20 * MIB
            stream.go_on.set()
            assert await answer.content.read() == b"data: [DONE]\n\n"
    assert await asyncio.to_thread(gateway.wait) == 0
    assert keys(store, bucket) == [try_prefix(spec.storage, spec.identity, pod.uid) + "f"]


async def refuses_connections(gateway: GatewayProcess) -> None:
    """Wait until the listening socket is closed; connections that stand are not concerned."""
    host, port = gateway.url.removeprefix("http://").split(":")
    while True:
        try:
            _, writer = await asyncio.open_connection(host, int(port))
        except ConnectionRefusedError:
            return
        writer.close()


async def test_during_the_notice_new_requests_are_served_and_sent_elsewhere_next_time(
    start_gateway: StartGateway, pod: AttemptPod
) -> None:
    gateway = start_gateway(ASSAY_NOTICE_SECONDS="300")
    async with Runner(gateway.url, pod.token()) as runner:
        assert (await runner.call("GET", "/readyz")).status == 200
        before = await runner.upload("f", b"x")
        assert before.headers.get("Connection") != "close"
        await asyncio.to_thread(gateway.terminate)
        assert (await runner.call("GET", "/readyz")).status == 503
        assert (await runner.call("GET", "/healthz")).status == 200
        during = await runner.upload("f", b"x")
        assert (during.status, during.headers["Connection"]) == (200, "close")


async def test_what_outlives_the_drain_is_cut_visibly(
    start_gateway: StartGateway, evals: Evals, bucket: str, store: S3Store, stream: SlowStream
) -> None:
    gateway = start_gateway(ASSAY_DRAIN_SECONDS="0.2")
    pod = evals.attempt(try_spec(evals.name, bucket, [model(stream)]))
    body = SlowUpload()
    async with Runner(gateway.url, pod.token()) as runner:
        upload = asyncio.create_task(runner.upload("f", body()))
        async with runner.session.post(runner.url + CHAT, headers=runner.headers()) as answer:
            assert await answer.content.readany() == b"data: 0\n\n"
            await body.half.wait()
            await asyncio.to_thread(gateway.terminate)
            with pytest.raises(ClientError):
                await answer.content.read()
        body.go_on.set()
        with pytest.raises(ClientError):
            await upload
    assert await asyncio.to_thread(gateway.wait) == 0
    assert keys(store, bucket) == []
    assert "Uploads" not in store.client.list_multipart_uploads(Bucket=bucket)


async def test_a_killed_gateway_loses_nothing_that_a_repeat_does_not_bring_back(
    start_gateway: StartGateway, evals: Evals, bucket: str, store: S3Store, stream: SlowStream
) -> None:
    first, second = start_gateway(), start_gateway()
    spec: TrySpec = try_spec(evals.name, bucket, [model(stream)])
    pod = evals.attempt(spec)
    body = SlowUpload()
    async with Runner(first.url, pod.token()) as runner:
        upload = asyncio.create_task(runner.upload("f", body()))
        async with runner.session.post(runner.url + CHAT, headers=runner.headers()) as answer:
            assert await answer.content.readany() == b"data: 0\n\n"
            await body.half.wait()
            first.kill()
            with pytest.raises(ClientError):
                await answer.content.read()
        body.go_on.set()
        with pytest.raises((ClientError, OSError)):
            await upload
    assert keys(store, bucket) == []
    again = SlowUpload()
    again.go_on.set()
    async with Runner(second.url, pod.token()) as runner:
        assert (await runner.upload("f", again())).json["size"] == 20 * MIB
    assert keys(store, bucket) == [try_prefix(spec.storage, spec.identity, pod.uid) + "f"]


async def test_a_caller_that_dies_in_the_middle_of_an_upload_leaves_nothing(
    start_gateway: StartGateway, pod: AttemptPod, bucket: str, store: S3Store
) -> None:
    gateway = start_gateway()
    body = SlowUpload()
    async with Runner(gateway.url, pod.token()) as runner:
        upload = asyncio.create_task(runner.upload("f", body()))
        await body.half.wait()
        upload.cancel()
    while "code=aborted" not in gateway.log:  # noqa: ASYNC110 - another process
        await asyncio.sleep(0.02)
    assert keys(store, bucket) == []
    assert "Uploads" not in store.client.list_multipart_uploads(Bucket=bucket)


def test_an_idle_gateway_ends_at_once(start_gateway: StartGateway) -> None:
    gateway = start_gateway()
    assert gateway.process
    gateway.process.send_signal(signal.SIGTERM)
    assert gateway.wait() == 0
