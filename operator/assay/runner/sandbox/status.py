"""gRPC statuses as the exceptions that callers handle."""

import grpc
from grpc import aio

from assay.runner.sandbox.errors import (
    SandboxError,
    SandboxLost,
    SandboxPathNotFound,
    SandboxPhaseEnded,
    SandboxRequestError,
    SandboxTooLarge,
    SandboxTransferError,
)

_EXCEPTIONS: dict[grpc.StatusCode, type[SandboxError]] = {
    grpc.StatusCode.UNAVAILABLE: SandboxLost,
    # A deadline is only ever set as a net below sandboxd's own timeout.
    grpc.StatusCode.DEADLINE_EXCEEDED: SandboxLost,
    # The peer reset the stream: sandboxd never does while it lives.
    grpc.StatusCode.CANCELLED: SandboxLost,
    grpc.StatusCode.INVALID_ARGUMENT: SandboxRequestError,
    grpc.StatusCode.FAILED_PRECONDITION: SandboxRequestError,
    grpc.StatusCode.NOT_FOUND: SandboxPathNotFound,
    grpc.StatusCode.DATA_LOSS: SandboxTransferError,
    grpc.StatusCode.ABORTED: SandboxPhaseEnded,
    grpc.StatusCode.RESOURCE_EXHAUSTED: SandboxTooLarge,
}

# gRPC's own words for a stream that broke under a write; sandboxd reads every upload to its end.
_BROKEN_WHILE_WRITING = "Internal error from Core"


def translated(error: aio.AioRpcError, doing: str) -> SandboxError:
    """The exception for a failed call.

    Args:
        doing: What was being done, for the message: "exec in /sock/environment/s".
    """
    kind = _EXCEPTIONS.get(error.code(), SandboxError)
    if error.details() == _BROKEN_WHILE_WRITING:
        kind = SandboxLost
    return kind(f"{doing}: {error.details() or error.code().name}")
