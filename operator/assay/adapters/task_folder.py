"""Reads a task's folder from disk, entry by entry, following nothing."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from assay.core.archive import ArchiveRefusedError, Entry, Kind

_LEFT_OUT = frozenset({".git"})
"""Folders at the top that never are part of a task."""


def read_task_folder(folder: Path) -> list[Entry]:
    """All entries below `folder`, in no particular order; bytes are read when an entry is opened.

    A folder without a file in it is left out, as git does: a clone must give the same archive. Raises
    ArchiveRefusedError for a socket, pipe or device, and for a name that is not UTF-8.
    """
    return list(_walk(folder, ""))


def _walk(folder: Path, prefix: str) -> Iterator[Entry]:
    with os.scandir(folder) as found:
        for item in found:
            if not prefix and item.name in _LEFT_OUT:
                continue
            yield from _entry(Path(item.path), prefix + item.name)


def _entry(path: Path, name: str) -> Iterator[Entry]:
    if not name.isprintable():
        raise ArchiveRefusedError(
            ascii(name), "the name holds a character that is not printable", "rename it"
        )
    facts = path.lstat()
    if stat.S_ISDIR(facts.st_mode):
        below = list(_walk(path, f"{name}/"))
        if below:
            yield Entry(name, Kind.FOLDER)
            yield from below
    elif stat.S_ISLNK(facts.st_mode):
        yield Entry(name, Kind.LINK, target=str(path.readlink()))
    elif stat.S_ISREG(facts.st_mode):
        executable = bool(facts.st_mode & stat.S_IXUSR)
        yield Entry(name, Kind.FILE, facts.st_size, executable, open=lambda: path.open("rb"))
    else:
        raise ArchiveRefusedError(name, "is neither a file nor a folder", "remove it from the task")
