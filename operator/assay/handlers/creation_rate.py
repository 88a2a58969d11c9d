"""One rate of Job creations for the whole process, shared fairly by its runs.

It hands out and never waits: a pass that got fewer creations than it wanted goes on with its deletions and
records, and comes back for the rest. So nothing ever stands behind a creation (cases.md C16, E2).
"""

import time
from collections.abc import Callable

FORGET_SECONDS = 10.0
"""A run that has not asked for so long no longer has a share."""


class CreationRate:
    """A token bucket that holds one second's creations; `clock` counts seconds."""

    def __init__(self, per_second: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._clock = per_second, clock
        self._most = max(1.0, per_second)
        self._tokens, self._filled_at = self._most, clock()
        self._paused_until = 0.0
        self._waiting: dict[str, float] = {}
        """Runs that got less than they wanted, the one that waits longest first, and when they last asked."""

    def take(self, run: str, wanted: int) -> int:
        """How many Jobs the run may make now: its share of what the rate allows, at most `wanted`."""
        now = self._clock()
        self._fill(now)
        self._waiting = {one: at for one, at in self._waiting.items() if now - at < FORGET_SECONDS}
        if wanted <= 0:
            self._waiting.pop(run, None)
            return 0
        self._waiting[run] = now
        if now < self._paused_until:
            return 0
        place = list(self._waiting).index(run)
        share, rest = divmod(int(self._tokens), len(self._waiting))
        granted = min(wanted, share + (place < rest))
        self._tokens -= granted
        if granted:
            # To the end of the line, or out of it.
            del self._waiting[run]
            if granted < wanted:
                self._waiting[run] = now
        return granted

    def due_in(self, run: str) -> float | None:
        """Seconds until it is worth while for the run to ask again; None if it waits for nothing."""
        if run not in self._waiting:
            return None
        now = self._clock()
        self._fill(now)
        place = list(self._waiting).index(run)
        return max(self._paused_until - now, (place + 1 - self._tokens) / self._rate, 0.0)

    def pause(self, seconds: float) -> None:
        """The API server asked for it: no run makes a Job for so long."""
        self._paused_until = max(self._paused_until, self._clock() + seconds)

    def _fill(self, now: float) -> None:
        self._tokens = min(self._most, self._tokens + (now - self._filled_at) * self._rate)
        self._filled_at = now
