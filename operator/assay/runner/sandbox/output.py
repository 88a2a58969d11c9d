"""Collects what a command writes, up to a limit, and passes it on as it comes."""

from collections.abc import Awaitable, Callable
from typing import Literal

type OutputStream = Literal["stdout", "stderr"]
type OutputCallback = Callable[[OutputStream, bytes], Awaitable[None]]


class OutputCollector:
    """Keeps the first `limit` bytes of each stream; the callback gets all of them."""

    def __init__(self, limit: int, callback: OutputCallback | None) -> None:
        self._limit = limit
        self._callback = callback
        self._kept: dict[OutputStream, bytearray] = {"stdout": bytearray(), "stderr": bytearray()}
        self.truncated = False

    async def add(self, stream: OutputStream, data: bytes) -> None:
        kept = self._kept[stream]
        room = self._limit - len(kept)
        kept += data[:room]
        self.truncated |= len(data) > room
        if self._callback:
            await self._callback(stream, data)

    def bytes_of(self, stream: OutputStream) -> bytes:
        return bytes(self._kept[stream])
