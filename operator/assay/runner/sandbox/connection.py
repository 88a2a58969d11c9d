"""The one connection to a sandboxd: made once, never remade."""

import contextlib
import time
from pathlib import Path
from typing import Any

import grpc
from grpc import aio

from assay.runner.sandbox import sandbox_pb2 as pb
from assay.runner.sandbox.errors import SandboxLost, SandboxNotReady
from assay.runner.sandbox.sandbox_pb2_grpc import SandboxStub
from assay.runner.sandbox.status import translated

_NEVER_MS = 2**31 - 1
_OPTIONS = (
    # sandboxd ends itself when it has lost its runner, so the channel must not close for being idle: an agent
    # may think for longer than gRPC's 30 minutes.
    ("grpc.client_idle_timeout_ms", _NEVER_MS),
    ("grpc.enable_http_proxy", 0),
    ("grpc.enable_retries", 0),
    # A pod's containers start one after the other; the default backoff would cost up to a second of each try.
    ("grpc.initial_reconnect_backoff_ms", 20),
    ("grpc.min_reconnect_backoff_ms", 20),
    ("grpc.max_reconnect_backoff_ms", 200),
    ("grpc.max_receive_message_length", 16 * 1024 * 1024),
)


class Connection:
    """A channel that counts as lost for good once it was ready and is no longer.

    The sandbox's own processes can replace the socket in the folder they share with sandboxd, so the first
    connection, made before any of them ran, is the only one to be trusted.
    """

    def __init__(self, socket_path: Path) -> None:
        self.socket_path = socket_path
        self._channel: aio.Channel | None = None
        self._stub: Any = None
        self._ready = False

    async def open(self, timeout_seconds: float) -> pb.StatReply:
        """Wait until sandboxd answers.

        Raises SandboxNotReady when it has not within `timeout_seconds`.
        """
        if self._channel is None:
            self._channel = aio.insecure_channel(f"unix:{self.socket_path.absolute()}", options=_OPTIONS)
            self._stub = SandboxStub(self._channel)  # type: ignore[no-untyped-call]
        give_up = time.monotonic() + timeout_seconds
        reason = "no socket"
        while (left := give_up - time.monotonic()) > 0:
            try:
                reply: pb.StatReply = await self._stub.Stat(
                    pb.StatRequest(), wait_for_ready=True, timeout=left
                )
            except aio.AioRpcError as error:
                # UNAVAILABLE: the socket closed between connecting and asking, as while sandboxd starts.
                if error.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
                    raise translated(error, f"waiting for sandboxd at {self.socket_path}") from error
                reason = error.details() or error.code().name
            else:
                self._ready = True
                return reply
        raise SandboxNotReady(
            f"sandboxd did not answer at {self.socket_path} within {timeout_seconds:g} s ({reason})"
        )

    @property
    def stub(self) -> Any:
        """The stub for the next call.

        Raises SandboxNotReady before `open`, SandboxLost when the connection has ever been lost.
        """
        if not self._ready or self._channel is None:
            raise SandboxNotReady(f"sandboxd at {self.socket_path} has not been waited for: call wait_ready")
        if self._channel.get_state() is not grpc.ChannelConnectivity.READY:
            raise SandboxLost(f"the connection to sandboxd at {self.socket_path} is gone")
        return self._stub

    async def close(self) -> None:
        if self._channel is not None:
            with contextlib.suppress(aio.UsageError):
                await self._channel.close()
        self._channel, self._stub, self._ready = None, None, False
