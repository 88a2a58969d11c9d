"""Processes by number *and* start time: a number alone may belong to somebody else by now."""

from __future__ import annotations

import os
import select
import signal
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Process:
    """A process of this machine."""

    pid: int
    #: Clock ticks since boot.
    started: int

    @classmethod
    def of(cls, pid: int) -> Process:
        """Raises ProcessLookupError when there is none of that number."""
        try:
            # The second field is a name in parentheses that may hold anything; the 22nd is the start time.
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except FileNotFoundError:
            raise ProcessLookupError(pid) from None
        if fields[0] in {"Z", "X"}:
            raise ProcessLookupError(pid)
        return cls(pid, int(fields[19]))

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
            if not self.alive():
                return True
            signal.pidfd_send_signal(handle, signal.SIGKILL)
            return bool(select.select([handle], [], [], timeout_s)[0])
        except ProcessLookupError:
            return True
        finally:
            os.close(handle)
