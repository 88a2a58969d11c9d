"""Requests that a pass starts and does not wait for: a slow one must keep no slot empty."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

log = logging.getLogger(__name__)

Errand = Coroutine[Any, Any, None]


class Errands:
    """The requests under way of one run's loop."""

    def __init__(self, run: str) -> None:
        """`run` names the run in the log."""
        self._run = run
        self._tasks: dict[asyncio.Task[None], str] = {}
        self._fatal: Exception | None = None

    def start(self, errand: Errand, name: str = "") -> None:
        """Begin; what a caller must not begin twice it gives a `name` and asks `busy` first."""
        task = asyncio.create_task(errand)
        self._tasks[task] = name
        task.add_done_callback(self._done)

    def busy(self, name: str) -> bool:
        """Whether an errand of that name is under way."""
        return name in self._tasks.values()

    def check(self) -> None:
        """Raise what an errand met that ends the loop, see `fatal`."""
        if self._fatal is not None:
            raise self._fatal

    def fatal(self, error: Exception) -> None:
        """Let the loop's next `check` raise the error."""
        self._fatal = error

    async def finish(self, name: str | None = None) -> None:
        """Wait for all that are under way, or for those of a name."""
        while tasks := [task for task, own in self._tasks.items() if name in (None, own)]:
            await asyncio.wait(tasks)

    async def abandon(self) -> None:
        """End all that are under way."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _done(self, task: asyncio.Task[None]) -> None:
        del self._tasks[task]
        if not task.cancelled() and (error := task.exception()) is not None:
            # A bug: what should have been done is decided anew in a later pass, not at once, for ever.
            log.error("run %s: a request failed", self._run, exc_info=error)
