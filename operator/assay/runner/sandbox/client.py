"""An asyncio client of one sandboxd, thus of one container."""

import contextlib
import math
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from grpc import aio

from assay.runner.sandbox import sandbox_pb2 as pb
from assay.runner.sandbox.archive import CHUNK_SIZE, pack_chunks, read_chunks
from assay.runner.sandbox.connection import Connection
from assay.runner.sandbox.errors import SandboxLost, SandboxRequestError, SandboxTransferError
from assay.runner.sandbox.output import OutputCallback, OutputCollector, OutputStream
from assay.runner.sandbox.results import DownloadResult, ExecResult, SandboxStatus
from assay.runner.sandbox.status import translated
from assay.runner.sandbox.transfer import describe_file, download_dir, download_file, upload

__all__ = ["OutputCallback", "OutputStream", "SandboxClient"]

DEFAULT_MAX_OUTPUT_BYTES = 64 * 1024 * 1024
# sandboxd ends a call at its own timeout; a sandbox that has not by then hangs.
_HANGING_AFTER_SECONDS = 30.0
_CONTROL_SECONDS = 30.0


class SandboxClient:
    """Runs commands in one container and moves files in and out of it.

    Every method but `wait_ready` raises SandboxLost once the container or the connection is gone, and
    SandboxRequestError where the request cannot work in this container. Calls may run at the same time.
    Cancelling the task that awaits one ends it: a command dies with every process it started.

        async with SandboxClient(Path("/sock/environment/s")) as sandbox:
            await sandbox.wait_ready(60)
            result = await sandbox.exec("make test", cwd="/app", timeout_seconds=600)
    """

    def __init__(self, socket_path: Path | str) -> None:
        self._connection = Connection(Path(socket_path))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection. sandboxd ends its container 60 s later unless it was told to quit."""
        await self._connection.close()

    async def wait_ready(self, timeout_seconds: float) -> SandboxStatus:
        """Wait until sandboxd answers, then hold the connection.

        Raises SandboxNotReady when it has not within `timeout_seconds`.
        """
        return SandboxStatus.from_message(await self._connection.open(timeout_seconds))

    async def exec(
        self,
        command: str | Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        user: str | int | None = None,
        timeout_seconds: float | None = None,
        on_output: OutputCallback | None = None,
        max_output_bytes: int = DEFAULT_MAX_OUTPUT_BYTES,
        call_id: str = "",
    ) -> ExecResult:
        """Run a command to its end.

        It has ended when its own process has, and its output was drained; children that it left in the
        background live on until `end_phase`.

        Args:
            command: A script for bash (sh where there is no bash), or an argument vector, run as it is.
            env: Added to the container's environment.
            cwd: Absolute; the container's working directory if absent.
            user: Name or number, optionally "user:group"; sandboxd's own user (root) if absent.
            timeout_seconds: After it, everything the command started is killed and `timed_out` is set.
            on_output: Awaited for each piece of output, in order; while it runs the command may have to wait.
            max_output_bytes: Per stream, how much the result keeps.
            call_id: Name for `signal`; must be unique among running commands.

        Raises:
            SandboxRequestError: No such user, working directory, program or shell.
            SandboxPhaseEnded: `end_phase` killed it.
            SandboxLost: The container is gone, or hangs.
        """
        request = pb.ExecRequest(timeout_ms=_milliseconds(timeout_seconds))
        try:
            request.MergeFrom(
                pb.ExecRequest(
                    env=env, cwd=cwd or "", user="" if user is None else str(user), call_id=call_id
                )
            )
            if isinstance(command, str):
                request.script = command
            else:
                request.argv.args.extend(command)
        except UnicodeEncodeError as error:
            raise SandboxRequestError(f"exec: {error}") from error
        output = OutputCollector(max_output_bytes, on_output)
        deadline = None if timeout_seconds is None else timeout_seconds + _HANGING_AFTER_SECONDS
        with self._errors("exec"):
            ending = await self._run(request, deadline, output)
        return ExecResult(
            stdout=output.bytes_of("stdout"),
            stderr=output.bytes_of("stderr"),
            code=ending.code,
            signal=ending.signal,
            timed_out=ending.timed_out,
            oom_killed=ending.oom_killed,
            truncated=output.truncated,
        )

    async def _run(self, request: pb.ExecRequest, deadline: float | None, output: OutputCollector) -> pb.Exit:
        call = self._connection.stub.Exec(request, timeout=deadline)
        ending: pb.Exit | None = None
        try:
            while (reply := await call.read()) is not aio.EOF:
                match reply.WhichOneof("event"):
                    case "stdout":
                        await output.add("stdout", reply.stdout)
                    case "stderr":
                        await output.add("stderr", reply.stderr)
                    case "exit":
                        ending = reply.exit
        finally:
            call.cancel()
        if ending is None:
            raise SandboxLost(
                f"sandboxd at {self._connection.socket_path} ended a command without its exit code"
            )
        return ending

    async def signal(self, call_id: str, signal: int) -> None:
        """Send a signal to the process group of a running command. Nothing happens if it has ended."""
        with self._errors("signal"):
            await self._control("Signal", pb.SignalRequest(call_id=call_id, signal=signal))

    async def upload_file(
        self, source: Path, target: str, *, mode: int | None = None, user: str | int | None = None
    ) -> int:
        """Copy a file to the absolute path `target`, which is replaced whole or not at all.

        Args:
            mode: Permission bits; those of `source` if absent.
            user: Owner, as in `exec`.

        Returns its size in bytes. Raises SandboxTransferError where it did not arrive whole.
        """
        header = self._header(target, pb.KIND_FILE, user)
        describe_file(header, source, mode)
        with self._errors(f"upload of {source} to {target}"):
            return await upload(self._connection.stub, header, read_chunks(source))

    async def upload_bytes(
        self, data: bytes, target: str, *, mode: int = 0o644, user: str | int | None = None
    ) -> int:
        """Write `data` to the absolute path `target`, as `upload_file` does."""
        header = self._header(target, pb.KIND_FILE, user)
        header.mode = mode & 0o777
        header.expected_size = len(data)
        pieces = (data[start : start + CHUNK_SIZE] for start in range(0, len(data), CHUNK_SIZE))
        with self._errors(f"upload to {target}"):
            return await upload(self._connection.stub, header, pieces)

    async def upload_dir(self, source: Path, target: str, *, user: str | int | None = None) -> int:
        """Copy the contents of a directory into the directory `target`, which is made if it is missing.

        Modes and links are kept, owners are not: all belongs to `user`. Links that leave the directory are
        refused.

        Returns the size of the tar stream in bytes. Raises SandboxTransferError where it did not arrive
        whole.
        """
        header = self._header(target, pb.KIND_TAR, user)
        with self._errors(f"upload of {source} to {target}"):
            return await upload(self._connection.stub, header, pack_chunks(source))

    async def download_file(self, source: str, target: Path, *, max_bytes: int = 0) -> DownloadResult:
        """Copy the file `source` to `target`, which is replaced whole or not at all.

        Raises SandboxPathNotFound where there is none, SandboxTooLarge where it is longer than `max_bytes`
        (0: no limit), SandboxTransferError where it did not arrive whole.
        """
        with self._errors(f"download of {source}"):
            return await download_file(self._connection.stub, source, target, max_bytes)

    async def download_dir(self, source: str, target: Path, *, max_bytes: int = 0) -> DownloadResult:
        """Copy the contents of the directory `source` into `target`, which is made if it is missing.

        What could write outside of `target` is left out and listed in the result.

        Raises SandboxPathNotFound where there is none, SandboxTooLarge where the tar stream is longer than
        `max_bytes` (0: no limit), SandboxTransferError where it did not arrive whole; `target` may then hold
        a part of it.
        """
        with self._errors(f"download of {source}"):
            return await download_dir(self._connection.stub, source, target, max_bytes)

    async def stat(self) -> SandboxStatus:
        """The sandbox's state: memory, processes, kills for want of memory."""
        with self._errors("stat"):
            return SandboxStatus.from_message(await self._control("Stat", pb.StatRequest()))

    async def end_phase(self) -> int:
        """Kill every process in the container but sandboxd. Returns how many there were."""
        with self._errors("end of phase"):
            reply: pb.EndPhaseReply = await self._control("EndPhase", pb.EndPhaseRequest())
        return reply.killed

    async def pause(self) -> int:
        """Stop every process in the container but sandboxd until `resume`. Returns how many there were.

        What is started meanwhile runs.
        """
        with self._errors("pause"):
            reply: pb.PauseReply = await self._control("Pause", pb.PauseRequest())
        return reply.paused

    async def resume(self) -> None:
        """Let every process of the container run on."""
        with self._errors("resume"):
            await self._control("Resume", pb.ResumeRequest())

    async def quit(self, code: int = 0) -> None:
        """Kill everything and end the container with this exit code (0 to 255)."""
        with self._errors("quit"):
            await self._control("Quit", pb.QuitRequest(code=code))

    async def _control(self, method: str, request: Any) -> Any:
        return await getattr(self._connection.stub, method)(request, timeout=_CONTROL_SECONDS)

    @staticmethod
    def _header(target: str, kind: pb.Kind, user: str | int | None) -> pb.UploadHeader:
        return pb.UploadHeader(path=target, kind=kind, user="" if user is None else str(user))

    @contextlib.contextmanager
    def _errors(self, doing: str) -> Iterator[None]:
        try:
            yield
        except aio.AioRpcError as error:
            raise translated(error, f"{doing} (sandboxd at {self._connection.socket_path})") from error
        except tarfile.ReadError as error:
            raise SandboxTransferError(f"{doing}: {error}") from error


def _milliseconds(seconds: float | None) -> int:
    if seconds is None:
        return 0
    if not 0 < seconds < 1e9:
        raise ValueError(f"timeout_seconds must be more than 0 and less than 1e9, not {seconds!r}")
    return math.ceil(seconds * 1000)
