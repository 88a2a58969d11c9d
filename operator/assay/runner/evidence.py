"""Everything that a try leaves, on its way into S3: scrubbed, bounded, and repeated until it arrived."""

import asyncio
import hashlib
import json
import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

from assay.api.evidence import EvidenceFile
from assay.runner.files import FoundFile, LeftOut, read_pieces, walk
from assay.runner.gateway_client import Deadline, GatewayClient, GatewayError, GatewayUnavailable, Pieces
from assay.runner.scrub import Scrubber
from assay.runner.state import RunnerState

log = logging.getLogger(__name__)

_IN_MEMORY = 8 << 20
_AT_ONCE = 6


@dataclass(frozen=True, slots=True)
class Limits:
    """How much of a try is kept: bytes a file, bytes and files in all."""

    file_bytes: int = 512 << 20
    total_bytes: int = 4 << 30
    files: int = 20_000
    omissions: int = 2_000
    unfinished_bytes: int = 64 << 20
    """Of a file that is still written: beyond this it waits for the end."""


class Evidence:
    """Uploads what a try leaves and remembers what the gateway holds, also across a restart of the runner."""

    def __init__(
        self, client: GatewayClient, scrubber: Scrubber, state: RunnerState, limits: Limits = Limits()
    ) -> None:
        self._client = client
        self._scrubber = scrubber
        self._state = state
        self._limits = limits
        self._held = state.acknowledged()
        self._omitted: list[LeftOut] = []
        self._failed: dict[str, str] = {}
        self._used = sum(file.size for file in self._held.values())
        self._unfinished: dict[str, tuple[int, int]] = {}
        """Size and time, in ns, at which a file that may still be written was uploaded."""

    @property
    def files(self) -> list[EvidenceFile]:
        """What the gateway holds, by path."""
        return [self._held[path] for path in sorted(self._held)]

    def holds(self, path: str) -> bool:
        """Whether the gateway holds an object of this path."""
        return path in self._held

    @property
    def failed(self) -> dict[str, str]:
        """Paths that could not be uploaded, with the reason. Then the evidence is partial."""
        return dict(self._failed)

    async def put_bytes(self, path: str, data: bytes, deadline: Deadline) -> None:
        """Upload a small document. Raises GatewayError."""
        data = self._scrubber.scrub(data)
        await self._put(path, lambda: iter((data,)), len(data), _sha256((data,)), deadline)

    async def put_file(self, path: str, file: Path, deadline: Deadline) -> None:
        """Upload one file, cut at the limits. Raises GatewayError, OSError."""
        size = (await asyncio.to_thread(file.lstat)).st_size
        kept = min(size, self._limits.file_bytes, self._room(path))
        if kept < size:
            self._omitted.append(LeftOut(path, f"kept the first {kept} of {size} bytes"))
        pieces: Pieces = partial(self._scrubbed, file, kept)
        if kept <= _IN_MEMORY:
            data = await asyncio.to_thread(lambda: b"".join(pieces()))
            pieces = partial(iter, (data,))
        length, digest = await asyncio.to_thread(_measure, pieces())
        await self._put(path, pieces, length, digest, deadline)

    async def put_unfinished(self, path: str, file: Path, deadline: Deadline) -> int:
        """Upload the whole lines of a file that may still be written. Returns the bytes sent, 0 for no news.

        What has no room now is no omission: the end uploads the file again, whole, or names what it lacks.
        Raises GatewayError, OSError.
        """
        status = await asyncio.to_thread(file.lstat)
        now = status.st_size, status.st_mtime_ns
        too_large = status.st_size > min(self._limits.unfinished_bytes, self._room(path))
        too_many = path not in self._held and len(self._held) >= self._limits.files
        if too_large or too_many or self._unfinished.get(path) == now:
            return 0
        pieces: Pieces = partial(self._scrubbed, file, status.st_size, unfinished=True)
        length, digest = await asyncio.to_thread(lambda: _measure(pieces()))
        if length:
            await self._put(path, pieces, length, digest, deadline)
        self._unfinished[path] = now
        return length

    async def put_folder(self, prefix: str, folder: Path, deadline: Deadline) -> None:
        """Upload every file of a folder below `prefix/`. What fails is in `failed`; nothing is raised."""
        found = await asyncio.to_thread(lambda: list(islice(walk(folder), self._limits.files * 2)))
        files = [entry for entry in found if isinstance(entry, FoundFile)]
        self._omitted += [
            LeftOut(f"{prefix}/{left.name}", left.reason) for left in found if isinstance(left, LeftOut)
        ]
        new = [file for file in files if f"{prefix}/{file.name}" not in self._held]
        room = max(0, self._limits.files - len(self._held))
        left_out = {file.name for file in new[room:]}
        self._omitted += [LeftOut(f"{prefix}/{name}", "too many files") for name in sorted(left_out)]
        gate = asyncio.Semaphore(_AT_ONCE)

        async def one(file: FoundFile) -> None:
            async with gate:
                await self.try_file(f"{prefix}/{file.name}", file.path, deadline)

        await asyncio.gather(*(one(file) for file in files if file.name not in left_out))

    async def try_file(self, path: str, file: Path, deadline: Deadline) -> None:
        """As `put_file`, but raises nothing: what the gateway could not take now is in `failed`.

        A file that can never be taken, or for which there is no time left, is an omission instead. An agent
        names its files as it likes and writes as many as it likes: it must earn no fresh try by that.
        """
        with self._noting(path):
            await self.put_file(path, file, deadline)

    async def try_exact(self, path: str, pieces: Pieces, deadline: Deadline) -> None:
        """Upload a stream that is of use only as it is. Raises nothing: see `try_file`.

        One that is above the limits, or that scrubbing would change, is an omission.
        """
        with self._noting(path):
            size, digest = await asyncio.to_thread(lambda: _measure(pieces()))
            scrubbed = await asyncio.to_thread(lambda: _measure(self._scrubber.stream(pieces())))
            if size > min(self._limits.file_bytes, self._room(path)):
                self._omitted.append(LeftOut(path, f"{size} bytes are above the limit"))
            elif scrubbed != (size, digest):
                self._omitted.append(LeftOut(path, "something in it looks like a credential"))
            else:
                await self._put(path, pieces, size, digest, deadline)

    @contextmanager
    def _noting(self, path: str) -> Iterator[None]:
        try:
            yield
        except GatewayUnavailable as error:
            log.warning("evidence %s was not uploaded: %s", path, error)
            self._failed[path] = str(error)
        except (GatewayError, OSError) as error:
            log.warning("evidence %s is left out: %s", path, error)
            self._omitted.append(LeftOut(path, str(error)[:500]))

    def leave_out(self, path: str, reason: str) -> None:
        """Name something as an omission that was never offered."""
        self._omitted.append(LeftOut(path, reason[:500]))

    @property
    def largest_file(self) -> int:
        """Bytes that one file may have."""
        return self._limits.file_bytes

    async def put_omissions(self, deadline: Deadline) -> None:
        """Upload `omissions.json`, which names what was left out or cut, if anything was."""
        if not self._omitted:
            return
        kept = self._omitted[: self._limits.omissions]
        document = {
            "schemaVersion": 1,
            "omitted": [{"path": left.name, "reason": left.reason} for left in kept],
            "notListed": len(self._omitted) - len(kept),
        }
        await self.put_bytes("omissions.json", json.dumps(document, indent=1).encode(), deadline)

    async def _put(self, path: str, pieces: Pieces, size: int, digest: str, deadline: Deadline) -> None:
        held = self._held.get(path)
        if held and (held.size, held.sha256) == (size, digest):
            return
        stored = await self._client.put_evidence(path, pieces, size, digest, deadline)
        self._used += stored.size - (held.size if held else 0)
        self._held[path] = stored
        self._state.acknowledge(stored)

    def _room(self, path: str) -> int:
        """Bytes that an object of this path may have; a later version takes the place of the earlier one."""
        held = self._held.get(path)
        return max(0, self._limits.total_bytes - self._used + (held.size if held else 0))

    def _scrubbed(self, file: Path, limit: int, *, unfinished: bool = False) -> Iterator[bytes]:
        return self._scrubber.stream(read_pieces(file, limit), unfinished=unfinished)


def _sha256(pieces: Iterable[bytes]) -> str:
    return _measure(pieces)[1]


def _measure(pieces: Iterable[bytes]) -> tuple[int, str]:
    size, digest = 0, hashlib.sha256()
    for piece in pieces:
        size += len(piece)
        digest.update(piece)
    return size, f"sha256:{digest.hexdigest()}"
