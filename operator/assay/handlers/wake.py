"""A wake-up call that knows how long it waited to be heard."""

import asyncio
import time
from collections.abc import Callable

CALM_SECONDS = 0.2
"""For so long more calls are awaited after one that is in no hurry: events come in bursts."""


class Wake:
    """Calls to one waiter. Of those since the last `clear`, the first tells how long they have waited."""

    def __init__(self, answered: Callable[[float], None]) -> None:
        """`answered` is told, by `clear`, for how many seconds the first call has waited."""
        self._answered, self._since = answered, 0.0
        self._called, self._soon = asyncio.Event(), asyncio.Event()

    def set(self, *, soon: bool = True) -> None:
        """Wake the waiter; not `soon` where nothing is lost if it sleeps on for a moment."""
        if not self._called.is_set():
            self._since = time.monotonic()
        self._called.set()
        if soon:
            self._soon.set()

    def clear(self) -> None:
        """Answer the calls so far."""
        if self._called.is_set():
            self._answered(time.monotonic() - self._since)
        self._called.clear()
        self._soon.clear()

    async def wait(self, most: float) -> None:
        """Until called, at most `most` seconds."""
        try:
            async with asyncio.timeout(most):
                await self._called.wait()
                async with asyncio.timeout(CALM_SECONDS):
                    await self._soon.wait()
        except TimeoutError:
            return
