"""What sandboxd answers, as plain values."""

from dataclasses import dataclass
from datetime import UTC, datetime

from assay.runner.sandbox import sandbox_pb2 as pb


@dataclass(frozen=True, slots=True)
class ExecResult:
    """How a command ended. A non-zero code is a result, never an exception."""

    stdout: bytes
    """Unchanged, whatever its encoding; at most `max_output_bytes` of it, from the beginning."""
    stderr: bytes
    code: int
    """Exit code; 128 + signal where a signal ended the process."""
    signal: int
    """The signal that ended the process; 0 if it ended by itself."""
    timed_out: bool
    """`timeout` passed: everything the command started has been killed."""
    oom_killed: bool
    """A process of this command was killed for want of memory, by sandboxd or by the kernel."""
    truncated: bool
    """More than `max_output_bytes` came on one of the streams; the rest was dropped."""


@dataclass(frozen=True, slots=True)
class DownloadResult:
    """A finished download."""

    size: int
    """Bytes that crossed the socket: the file's, or those of the tar stream."""
    skipped: tuple[str, ...] = ()
    """Entries left out, each with the reason: sockets and devices, links that leave the directory."""


@dataclass(frozen=True, slots=True)
class MemoryKill:
    """One process that sandboxd killed shortly before the container's memory limit."""

    at: datetime
    pid: int
    command: str
    rss_bytes: int
    used_bytes: int
    """The container's memory at that moment, reclaimable caches left out."""
    limit_bytes: int
    call_id: str
    """The call that started it; empty if the process had outlived its call."""


@dataclass(frozen=True, slots=True)
class SandboxStatus:
    """The state of a sandbox."""

    version: str
    pid: int
    calls: int
    """Commands that run now."""
    processes: int
    """Processes in the container, sandboxd itself left out."""
    memory_limit_bytes: int | None
    memory_used_bytes: int
    """Reclaimable caches left out."""
    kernel_oom_kills: int
    """Kills by the kernel in this container since it began."""
    memory_kills: tuple[MemoryKill, ...]
    """The newest 64 kills by sandboxd, oldest first."""
    own_rss_bytes: int
    """Resident memory of sandboxd itself."""

    @classmethod
    def from_message(cls, message: pb.StatReply) -> "SandboxStatus":
        return cls(
            version=message.version,
            pid=message.pid,
            calls=message.calls,
            processes=message.processes,
            memory_limit_bytes=message.memory_limit_bytes or None,
            memory_used_bytes=message.memory_used_bytes,
            kernel_oom_kills=message.kernel_oom_kills,
            memory_kills=tuple(
                MemoryKill(
                    at=datetime.fromtimestamp(kill.unix_ms / 1000, UTC),
                    pid=kill.pid,
                    command=kill.command,
                    rss_bytes=kill.rss_bytes,
                    used_bytes=kill.used_bytes,
                    limit_bytes=kill.limit_bytes,
                    call_id=kill.call_id,
                )
                for kill in message.memory_kills
            ),
            own_rss_bytes=message.own_rss_bytes,
        )
