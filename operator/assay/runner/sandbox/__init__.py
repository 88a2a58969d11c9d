"""The runner's side of sandboxd: run commands in a task's container and move files in and out."""

from assay.runner.sandbox.client import (
    OutputCallback,
    OutputStream,
    SandboxClient,
)
from assay.runner.sandbox.errors import (
    SandboxError,
    SandboxLost,
    SandboxNotReady,
    SandboxPathNotFound,
    SandboxPhaseEnded,
    SandboxRequestError,
    SandboxTooLarge,
    SandboxTransferError,
)
from assay.runner.sandbox.results import (
    DownloadResult,
    ExecResult,
    MemoryKill,
    SandboxStatus,
)

__all__ = [
    "DownloadResult",
    "ExecResult",
    "MemoryKill",
    "OutputCallback",
    "OutputStream",
    "SandboxClient",
    "SandboxError",
    "SandboxLost",
    "SandboxNotReady",
    "SandboxPathNotFound",
    "SandboxPhaseEnded",
    "SandboxRequestError",
    "SandboxStatus",
    "SandboxTooLarge",
    "SandboxTransferError",
]
