"""A pod's network: one namespace of its own, with loopback and nothing else."""

import asyncio
import contextlib
import os
import socket
import threading
from collections.abc import AsyncIterator
from pathlib import Path


class PodNetwork:
    """A network namespace that runner and containers share, as the containers of a pod do."""

    def __init__(self, holder: int) -> None:
        self.path = Path(f"/proc/{holder}/ns/net")

    def inside(self, *command: str) -> tuple[str, ...]:
        """The command line that runs a command inside."""
        return ("nsenter", f"--net={self.path}", *command)

    def listen(self, port: int = 0) -> socket.socket:
        """A socket that listens on the pod's loopback but is served by this process."""
        made: list[socket.socket] = []

        def make() -> None:
            # A thread has a network namespace of its own; the socket stays in it when the thread has ended.
            with self.path.open() as namespace:
                os.setns(namespace.fileno(), os.CLONE_NEWNET)
            listener = socket.create_server(("127.0.0.1", port))
            made.append(listener)

        thread = threading.Thread(target=make)
        thread.start()
        thread.join()
        return made[0]


@contextlib.asynccontextmanager
async def pod_network() -> AsyncIterator[PodNetwork]:
    """A new network, gone at the end of the block."""
    holder = await asyncio.create_subprocess_exec(
        *("unshare", "--net", "sh", "-c", "ip link set lo up && echo up && exec sleep infinity"),
        stdout=asyncio.subprocess.PIPE,
    )
    assert holder.stdout is not None
    assert await holder.stdout.readline() == b"up\n"
    try:
        yield PodNetwork(holder.pid)
    finally:
        holder.kill()
        await holder.wait()
