"""Files and directories across the socket, each checked by size and sha256 at the end."""

import asyncio
import contextlib
import hashlib
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from grpc import aio

from assay.runner.sandbox import sandbox_pb2 as pb
from assay.runner.sandbox.archive import unpack
from assay.runner.sandbox.errors import SandboxTransferError
from assay.runner.sandbox.results import DownloadResult


def describe_file(header: pb.UploadHeader, source: Path, mode: int | None) -> None:
    """Fill in the permission bits and the size of the file to be uploaded."""
    status = source.stat()
    header.mode = (status.st_mode if mode is None else mode) & 0o777
    header.expected_size = status.st_size


async def upload(stub: Any, header: pb.UploadHeader, chunks: Iterator[bytes]) -> int:
    """Send a stream whose pieces are made one at a time in a thread. Returns its size in bytes."""
    call = stub.Upload()
    digest, size = hashlib.sha256(), 0
    try:
        try:
            await call.write(pb.UploadRequest(header=header))
            while chunk := await asyncio.to_thread(_next_hashed, chunks, digest):
                size += len(chunk)
                await call.write(pb.UploadRequest(chunk=chunk))
            await call.write(pb.UploadRequest(end=pb.End(size=size, sha256=digest.digest())))
            await call.done_writing()
        except asyncio.InvalidStateError:
            # sandboxd has refused it meanwhile; awaiting the call tells why.
            pass
        reply: pb.UploadReply = await call
    finally:
        call.cancel()
    return reply.size


def _next_hashed(chunks: Iterator[bytes], digest: Any) -> bytes:
    chunk = next(chunks, b"")
    digest.update(chunk)
    return chunk


class _Download:
    """The chunks of one download, checked against its end marker."""

    def __init__(self, call: Any, path: str) -> None:
        self._call = call
        self._path = path
        self._digest = hashlib.sha256()
        self.size = 0
        self.header = pb.DownloadHeader()
        self.end: pb.End | None = None

    async def next_chunk(self) -> bytes:
        """The next piece; b"" once the end marker came and agreed."""
        while self.end is None:
            reply = await self._call.read()
            if reply is aio.EOF:
                raise SandboxTransferError(
                    f"the download of {self._path} was cut short after {self.size} bytes"
                )
            match reply.WhichOneof("part"):
                case "header":
                    self.header = reply.header
                case "chunk" if reply.chunk:
                    self.size += len(reply.chunk)
                    self._digest.update(reply.chunk)
                    chunk: bytes = reply.chunk
                    return chunk
                case "end":
                    self._check(reply.end)
                    self.end = reply.end
        return b""

    def _check(self, end: pb.End) -> None:
        if (end.size, end.sha256) != (self.size, self._digest.digest()):
            raise SandboxTransferError(
                f"the download of {self._path} is damaged: {self.size} bytes came, {end.size} were sent"
            )


async def download_file(stub: Any, source: str, target: Path, max_bytes: int) -> DownloadResult:
    """Fetch one file. `target` is replaced when all of it is there, and untouched otherwise."""
    call = stub.Download(pb.DownloadRequest(path=source, kind=pb.KIND_FILE, max_size=max_bytes))
    download = _Download(call, source)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = target.with_name(f".{target.name[:100]}.{secrets.token_hex(4)}.partial")
        try:
            with partial.open("xb") as file:
                while chunk := await download.next_chunk():
                    await asyncio.to_thread(file.write, chunk)
            partial.chmod(download.header.mode & 0o777 | 0o600)
            partial.replace(target)
        finally:
            partial.unlink(missing_ok=True)
    finally:
        call.cancel()
    return DownloadResult(size=download.size)


async def download_dir(stub: Any, source: str, target: Path, max_bytes: int) -> DownloadResult:
    """Fetch a directory's contents. After an error `target` may hold a part of them."""
    call = stub.Download(pb.DownloadRequest(path=source, kind=pb.KIND_TAR, max_size=max_bytes))
    download = _Download(call, source)
    loop = asyncio.get_running_loop()

    def next_chunk() -> bytes:
        return asyncio.run_coroutine_threadsafe(download.next_chunk(), loop).result()

    try:
        refused = await _thread_to_its_end(lambda: unpack(next_chunk, target), call.cancel)
    finally:
        call.cancel()
    skipped = download.end.skipped if download.end else ()
    return DownloadResult(size=download.size, skipped=(*skipped, *refused))


async def _thread_to_its_end[T](work: Callable[[], T], stop: Callable[[], object]) -> T:
    """Run `work` in a thread; when cancelled, `stop` it and wait, so that nothing is written afterwards."""
    running = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        stop()
        with contextlib.suppress(Exception, asyncio.CancelledError):
            await running
        raise
