"""A wake-up call that knows how long it waited to be heard."""

import asyncio
import time
from collections.abc import Callable


class Wake(asyncio.Event):
    """An Event whose `clear` reports the seconds since the first `set` that it answers."""

    def __init__(self, answered: Callable[[float], None]) -> None:
        super().__init__()
        self._answered, self._since = answered, 0.0

    def set(self) -> None:
        """Wake; the first of several calls counts."""
        if not self.is_set():
            self._since = time.monotonic()
        super().set()

    def clear(self) -> None:
        """Answer the calls so far."""
        if self.is_set():
            self._answered(time.monotonic() - self._since)
        super().clear()
