"""Runs the model gateway for as long as Harbor's trial runs."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from aiohttp import web

from assay.runner.context import TryContext
from assay.runner.model_gateway.server import ModelGateway
from assay.runner.trial_config import ModelAccess

_HOST = "127.0.0.1"


@contextlib.asynccontextmanager
async def model_gateway(context: TryContext) -> AsyncIterator[ModelAccess | None]:
    """Serve the variant's models on localhost; None where it has none. Raises OSError for a taken port."""
    pod = context.pod
    if not pod.spec.models:
        yield None
        return
    gateway = ModelGateway(pod.spec.models, pod.spec.task.network, context.client, context.calls)
    context.scrubber.add(gateway.token)
    # A call that the agent gives up ends at the provider too.
    runner = web.AppRunner(
        gateway.application(), access_log=None, shutdown_timeout=2, handler_cancellation=True
    )
    await runner.setup()
    await web.TCPSite(runner, _HOST, pod.model_gateway_port).start()
    uploads = asyncio.create_task(context.calls.upload_forever(context.evidence))
    try:
        yield ModelAccess(f"http://{_HOST}:{pod.model_gateway_port}", gateway.token)
    finally:
        uploads.cancel()
        await asyncio.wait({uploads})
        await runner.cleanup()
