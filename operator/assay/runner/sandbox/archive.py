"""Directories as tar streams, in memory that does not grow with them.

Both directions are driven from a worker thread or a generator that is asked for the next piece, so nothing is
read ahead: the gRPC stream's own flow control is the only buffer.
"""

import io
import os
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, cast

from assay.runner.sandbox.errors import SandboxTransferError

CHUNK_SIZE = 256 * 1024

_PADDING = bytes(tarfile.BLOCKSIZE)


def read_chunks(source: Path) -> Iterator[bytes]:
    """The bytes of a file in pieces of at most `CHUNK_SIZE`."""
    with source.open("rb") as file:
        while chunk := file.read(CHUNK_SIZE):
            yield chunk


def pack_chunks(source: Path) -> Iterator[bytes]:
    """The contents of a directory as a tar stream: sorted, owners dropped, links kept as links.

    Raises OSError where something cannot be read, SandboxTransferError naming the file where one is shorter
    than it was a moment ago or is neither file, directory nor link.
    """
    buffer = bytearray()
    for piece in _pack_pieces(source):
        buffer += piece
        if len(buffer) >= CHUNK_SIZE:
            yield bytes(buffer)
            buffer.clear()
    yield bytes(buffer) + 2 * _PADDING


def _pack_pieces(source: Path) -> Iterator[bytes]:
    # Only asked for headers: the archive itself is never written to.
    headers = tarfile.open(fileobj=io.BytesIO(), mode="w", format=tarfile.PAX_FORMAT)  # noqa: SIM115
    for folder, folders, files in os.walk(source, onerror=_raise):
        folders.sort()
        for name in sorted(folders + files):
            path = Path(folder) / name
            info = headers.gettarinfo(path, arcname=str(path.relative_to(source)))
            if info is None or not (info.isfile() or info.isdir() or info.issym() or info.islnk()):
                raise SandboxTransferError(
                    f"{path} is neither file, directory nor link and cannot be uploaded"
                )
            info.uid = info.gid = 0
            info.uname = info.gname = ""
            yield info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")
            if info.isreg():
                yield from _file_pieces(path, info.size)


def _file_pieces(path: Path, size: int) -> Iterator[bytes]:
    left = size
    with path.open("rb") as file:
        while left:
            piece = file.read(min(left, CHUNK_SIZE))
            if not piece:
                raise SandboxTransferError(f"{path} became shorter while it was read")
            left -= len(piece)
            yield piece
    yield _PADDING[: -size % tarfile.BLOCKSIZE]


def _raise(error: OSError) -> None:
    raise error


class ChunkReader(io.RawIOBase):
    """A file-like object over a function that returns the next piece, and b"" at the end."""

    def __init__(self, next_chunk: Callable[[], bytes]) -> None:
        self._next_chunk = next_chunk
        self._chunk = memoryview(b"")

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        if size < 0:
            raise io.UnsupportedOperation("an unbounded read of a tar stream")
        pieces = []
        while size:
            if not self._chunk:
                self._chunk = memoryview(self._next_chunk())
                if not self._chunk:
                    break
            pieces.append(self._chunk[:size])
            size -= len(pieces[-1])
            self._chunk = self._chunk[len(pieces[-1]) :]
        return b"".join(pieces)


def unpack(next_chunk: Callable[[], bytes], target: Path) -> list[str]:
    """Extract a tar stream that came out of a sandbox into a directory, which is made if it is missing.

    Nothing can be written outside of `target`: the data filter of PEP 706 decides. What it refuses is left
    out and returned, one line each: a link that an agent made must not cost the rest of the directory.

    Raises tarfile.ReadError where the stream is damaged, OSError where something cannot be written.
    """
    target.mkdir(parents=True, exist_ok=True)
    refused = []
    reader = ChunkReader(next_chunk)
    with tarfile.open(
        fileobj=cast(IO[bytes], reader), mode="r|", bufsize=CHUNK_SIZE, errorlevel=1
    ) as archive:
        for member in archive:
            try:
                archive.extract(member, target, filter="data")
            except tarfile.FilterError as error:
                refused.append(str(error))
            except KeyError:
                refused.append(f"{member.name!r} is a hard link to an entry that was left out")
    # The stream's end marker follows the archive's: read on, so that its digest is checked.
    while next_chunk():
        pass
    return refused
