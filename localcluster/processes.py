"""Processes by number *and* start time: a number alone may belong to somebody else by now."""

from __future__ import annotations

import os
import select
import signal
import time
from dataclasses import dataclass
from pathlib import Path

REAPED_WITHIN_S = 2.0


@dataclass(frozen=True)
class Process:
    """A process of this machine."""

    pid: int
    #: Clock ticks since boot.
    started: int

    @classmethod
    def of(cls, pid: int) -> Process:
        """Raises ProcessLookupError when none of that number lives."""
        state, started = _look_up(pid)
        if state in {"Z", "X"}:
            raise ProcessLookupError(pid)
        return cls(pid, started)

    def alive(self) -> bool:
        try:
            return Process.of(self.pid) == self
        except ProcessLookupError:
            return False

    def kill(self, timeout_s: float) -> bool:
        """Sends SIGKILL and waits; whether it ended in time."""
        try:
            handle = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return True
        try:
            # Between the look and the open the number may have changed hands; now it cannot.
            if self.alive():
                signal.pidfd_send_signal(handle, signal.SIGKILL)
                if not select.select([handle], [], [], timeout_s)[0]:
                    return False
        except ProcessLookupError:
            pass
        finally:
            os.close(handle)
        self._await_reaping()
        return True

    def _await_reaping(self) -> None:
        """Its parent, the machine's init, is about to do it; one that never does is not ours to wait for."""
        deadline = time.monotonic() + REAPED_WITHIN_S
        while time.monotonic() < deadline:
            try:
                if _look_up(self.pid)[1] != self.started:
                    return
            except ProcessLookupError:
                return
            time.sleep(0.01)


def _look_up(pid: int) -> tuple[str, int]:
    """State letter and start time, also of a process that has ended and was not yet reaped."""
    try:
        # The second field is a name in parentheses that may hold anything; the 22nd is the start time.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        raise ProcessLookupError(pid) from None
    return fields[0], int(fields[19])
