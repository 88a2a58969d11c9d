"""The end of the pod, as the runner hears of it."""

import asyncio
import signal
from types import FrameType

_SIGNALS: tuple[int, ...] = (signal.SIGTERM, signal.SIGUSR1)


class PodEnd:
    """Signals from the kubelet. SIGUSR1 comes from the preStop hook, before any container is told to end.

    Made before the event loop runs, because a signal can come while modules are imported.
    """

    def __init__(self) -> None:
        self._early: set[int] = set()
        self._over = False
        self._rescue: asyncio.Event | None = None
        self._terminated: asyncio.Event | None = None
        for number in _SIGNALS:
            signal.signal(number, self._note)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._early.add(number)

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Handle signals in this loop from now on, and those that came before."""
        self._rescue, self._terminated = asyncio.Event(), asyncio.Event()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self._handle, number)
        for number in sorted(self._early):
            self._handle(number)

    def _handle(self, number: int) -> None:
        if number == signal.SIGTERM:
            self.terminated.set()
        if not self._over:
            self.rescue.set()

    @property
    def rescue(self) -> asyncio.Event:
        """Set when the pod is told to end before the try has: save what exists."""
        if self._rescue is None:
            raise RuntimeError("PodEnd is not attached to a loop")
        return self._rescue

    @property
    def terminated(self) -> asyncio.Event:
        """Set by SIGTERM: at a normal end the kubelet sends it once every sibling is gone."""
        if self._terminated is None:
            raise RuntimeError("PodEnd is not attached to a loop")
        return self._terminated

    def over(self) -> None:
        """The try has ended: from now on a signal is the pod's normal end."""
        self._over = True
