"""The process: start, serve, and on SIGTERM let everything that is under way finish."""

import asyncio
import logging
import signal

from aiohttp import web

from assay.adapters.kube import KubeClient
from assay.gateway.app import Gateway
from assay.gateway.settings import Settings

log = logging.getLogger("assay.gateway")

KEEP_ALIVE_SECONDS = 75


async def serve(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT, then drain and return."""
    async with KubeClient(settings.kube) as kube:
        await _serve(Gateway(settings, kube), settings)


async def _serve(gateway: Gateway, settings: Settings) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    runner = web.AppRunner(
        gateway.application(),
        access_log=None,
        # A caller that hangs up cancels its handler, and so the call at the provider or the upload.
        handler_cancellation=True,
        # Bodies pass as they are: an encoded one would no longer fit its own headers.
        auto_decompress=False,
        keepalive_timeout=KEEP_ALIVE_SECONDS,
        shutdown_timeout=1,
    )
    await runner.setup()
    site = web.TCPSite(runner, settings.gateway.host, settings.gateway.port)
    await site.start()
    log.info("listening on %s", " ".join(f"{host}:{port}" for host, port, *_ in runner.addresses))
    await stop.wait()
    await _drain(gateway, site, settings)
    await runner.cleanup()


async def _drain(gateway: Gateway, site: web.TCPSite, settings: Settings) -> None:
    """Wait for requests that are under way.

    Not left to aiohttp: from the start of its own shutdown it drops every byte that still arrives, so that
    an upload would hang until the timeout.
    """
    gateway.draining = True
    log.info("draining: %d requests under way", gateway.in_flight)
    await asyncio.sleep(settings.gateway.notice_seconds)
    await site.stop()
    try:
        async with asyncio.timeout(settings.gateway.drain_seconds):
            await gateway.idle()
    except TimeoutError:
        log.warning("cutting %d requests that outlived the drain", gateway.in_flight)
