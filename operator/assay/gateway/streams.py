"""Bodies in bounded memory, in both directions; a stream that was cut never looks complete."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator

import aiohttp
from aiohttp import web

from assay.adapters.s3 import StorageError
from assay.gateway.errors import Code, GatewayError


class BrokenStream(Exception):
    """The source failed after the answer had begun: aiohttp closes the connection without the body's end."""


async def relay(
    request: web.Request, response: web.StreamResponse, chunks: AsyncIterable[bytes]
) -> web.StreamResponse:
    """Pass `chunks` on as they come, no faster than the caller reads. Raises BrokenStream."""
    await response.prepare(request)
    try:
        async for chunk in chunks:
            await response.write(chunk)
    except (aiohttp.ClientError, StorageError, OSError) as error:  # TimeoutError is an OSError
        raise BrokenStream(f"the answer was cut: {error or type(error).__name__}") from error
    await response.write_eof()
    return response


async def body_chunks(request: web.Request, limit: int, idle_seconds: float) -> AsyncIterator[bytes]:
    """The request's body. Raises GatewayError 413 above `limit` bytes, 408 after a long silence."""
    refuse_larger(request, limit)
    received = 0
    while True:
        try:
            async with asyncio.timeout(idle_seconds):
                chunk = await request.content.readany()
        except TimeoutError:
            message = f"no byte of the body came for {idle_seconds:g} s"
            raise GatewayError(408, Code.UPLOAD_STALLED, message) from None
        if not chunk:
            return
        received += len(chunk)
        if received > limit:
            raise _too_large(limit)
        yield chunk


async def body_bytes(request: web.Request, limit: int, idle_seconds: float) -> bytes:
    """The whole body, at most `limit` bytes."""
    return b"".join([chunk async for chunk in body_chunks(request, limit, idle_seconds)])


def refuse_larger(request: web.Request, limit: int) -> None:
    """Refuse by the announced length, before a byte is read."""
    if request.content_length is not None and request.content_length > limit:
        raise _too_large(limit)


def _too_large(limit: int) -> GatewayError:
    return GatewayError(413, Code.TOO_LARGE, f"the body is larger than {limit} bytes, the limit here")
