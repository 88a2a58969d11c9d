"""What the gateway costs: evidence through it or straight into S3, model calls through it or direct.

    python -m localcluster shell -- python -m benchmarks.gateway [--size-mib 1024] [--rounds 200]

Needs the API server of the current kubeconfig (TokenReview is real). S3 is versitygw on this machine; the
provider answers at once, so that only the way is measured. The floor is the same work without the gateway,
from the same run.
"""

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import aiohttp
from aiohttp import web
from aiohttp.test_utils import TestServer

from assay.adapters.s3 import AsyncS3Store
from assay.api.tryspec import ModelTarget
from tests.fixtures.s3 import S3Server, new_bucket, running
from tests.gateway.harness import Evals, GatewayProcess, Runner, try_spec

MIB = 1024 * 1024
PIECE = os.urandom(256 * 1024)
EVENTS = 50


async def pieces(size: int) -> AsyncIterator[bytes]:
    for _ in range(size // len(PIECE)):
        yield PIECE


def peak_rss_mib(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"process {pid} is gone")


async def rate(size: int, work: Callable[[], Awaitable[object]]) -> str:
    start = time.perf_counter()
    await work()
    return f"{size / (time.perf_counter() - start) / 1e6:6.0f} MB/s"


async def spread(rounds: int, work: Callable[[], Awaitable[object]]) -> str:
    taken = []
    for _ in range(rounds):
        start = time.perf_counter()
        await work()
        taken.append((time.perf_counter() - start) * 1000)
    taken.sort()
    return f"median {statistics.median(taken):5.1f} ms, 95 % below {taken[int(len(taken) * 0.95)]:5.1f} ms"


async def answer(_: web.Request) -> web.Response:
    return web.json_response({"choices": []})


async def stream(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    for number in range(EVENTS):
        await response.write(b"data: %d\n\n" % number)
    return response


async def start_provider() -> TestServer:
    app = web.Application()
    app.router.add_post("/v1/chat/completions", answer)
    app.router.add_post("/stream/v1/chat/completions", stream)
    server = TestServer(app)
    await server.start_server()
    return server


async def post(session: aiohttp.ClientSession, url: str, headers: dict[str, str]) -> None:
    async with session.post(url, data=b"{}", headers=headers) as reply:
        await reply.read()


async def measure(
    s3: S3Server, evals: Evals, gateway: GatewayProcess, size: int, rounds: int
) -> list[tuple[str, str]]:
    provider = await start_provider()
    bucket = new_bucket(s3)
    endpoints = [str(provider.make_url(path)) for path in ("/v1", "/stream/v1")]
    models = [ModelTarget(role="main", name="m", api="OpenAIChat", endpoint=url) for url in endpoints]
    pod = evals.attempt(try_spec(evals.name, bucket, models))
    store = AsyncS3Store(s3.settings)
    assert gateway.process
    rows: list[tuple[str, str]] = []
    async with Runner(gateway.url, pod.token()) as runner:
        own = runner.headers()

        def through(index: int) -> Callable[[], Awaitable[None]]:
            url = f"{gateway.url}/v1/models/{index}/chat/completions"
            return lambda: post(runner.session, url, own)

        def direct(index: int) -> Callable[[], Awaitable[None]]:
            return lambda: post(runner.session, f"{endpoints[index]}/chat/completions", {})

        many = 8
        rows = [
            (
                "floor: one stream into S3",
                await rate(size, lambda: store.put_stream(bucket, "f", pieces(size))),
            ),
            ("evidence, one stream", await rate(size, lambda: runner.upload("f", pieces(size)))),
            (
                f"evidence, {many} streams at a time",
                await rate(
                    size,
                    lambda: asyncio.gather(
                        *(runner.upload(f"f{number}", pieces(size // many)) for number in range(many))
                    ),
                ),
            ),
            (
                "floor: 1 KiB object into S3",
                await spread(rounds, lambda: store.put_bytes(bucket, "s", PIECE[:1024])),
            ),
            ("evidence of 1 KiB", await spread(rounds, lambda: runner.upload("s", PIECE[:1024]))),
            ("floor: model call, direct", await spread(rounds, direct(0))),
            ("model call through the gateway", await spread(rounds, through(0))),
            (f"floor: {EVENTS} events, direct", await spread(rounds, direct(1))),
            (f"{EVENTS} events through the gateway", await spread(rounds, through(1))),
        ]
    rows.append(("gateway's peak memory", f"{peak_rss_mib(gateway.process.pid):6.0f} MiB"))
    await store.close()
    await provider.close()
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--size-mib", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=200)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, running(Path(name) / "s3") as s3:
        evals = Evals(Path(name) / "evals")
        gateway = GatewayProcess(Path(name), evals, s3.environment).start()
        try:
            rows = asyncio.run(measure(s3, evals, gateway, arguments.size_mib * MIB, arguments.rounds))
        finally:
            gateway.kill()
            evals.delete()
    size, rounds = arguments.size_mib, arguments.rounds
    print(f"{size} MiB, {rounds} rounds, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}")
    for row, figure in rows:
        print(f"  {row:36} {figure}")


if __name__ == "__main__":
    main()
