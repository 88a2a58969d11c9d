"""The files of a folder that an agent could write into, listed without trusting any of them."""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

_SAFE = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) not in "%\\")
_LONGEST_PATH = 600


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A regular file; `name` is its evidence path below the folder, percent-encoded where it must be."""

    path: Path
    name: str
    size: int


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Something that is no evidence file, and why."""

    name: str
    reason: str


def walk(folder: Path) -> Iterator[FoundFile | LeftOut]:
    """Every entry below `folder`, sorted; links are named, never followed."""
    for root, folders, files in os.walk(folder, followlinks=False):
        folders.sort()
        for entry in sorted(files + [name for name in folders if (Path(root) / name).is_symlink()]):
            yield _entry(Path(root) / entry, folder)


def _entry(path: Path, folder: Path) -> FoundFile | LeftOut:
    name = evidence_name(os.fsencode(path.relative_to(folder)))
    try:
        status = path.lstat()
    except OSError as error:
        return LeftOut(name, error.strerror or "cannot be read")
    if stat.S_ISLNK(status.st_mode):
        return LeftOut(name, f"symbolic link to {evidence_name(os.fsencode(path.readlink()))}")
    if not stat.S_ISREG(status.st_mode):
        return LeftOut(name, "not a regular file")
    if len(name) > _LONGEST_PATH:
        return LeftOut(
            name[:_LONGEST_PATH], f"its path has {len(name)} characters, more than {_LONGEST_PATH}"
        )
    return FoundFile(path, name, status.st_size)


def evidence_name(raw: bytes) -> str:
    """A path as evidence has it: printable ASCII stays, every other byte becomes %XX."""
    return quote(raw, safe=_SAFE)


def read_pieces(path: Path, limit: int, chunk: int = 1 << 18) -> Iterator[bytes]:
    """At most `limit` bytes of a file, in pieces. A link in its place is an error."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        while limit > 0 and (piece := file.read(min(chunk, limit))):
            limit -= len(piece)
            yield piece
