"""A task as bytes: the deterministic archive that travels, and the digest that Harbor would compute.

The archive holds every file of the task's folder, because every byte may reach a container. What differs from
machine to machine is normalised: order, owners, times, and modes (0644, or 0755 if the owner may execute).
"""

import hashlib
import io
import posixpath
import tarfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import IO, Any, BinaryIO

from pathspec import GitIgnoreSpec, PathSpec

FILE_MODE = 0o644
PROGRAM_MODE = 0o755
_CHUNK = 1 << 20

_HARBOR_FILES = ("task.toml", "instruction.md", "README.md", "trajectory.json")
_HARBOR_FOLDERS = ("environment/", "tests/", "solution/", "steps/")
_HARBOR_DEFAULT_IGNORES = ("__pycache__/", "*.pyc", ".DS_Store", "*.swp", "*.swo", "*~")
_HARBORIGNORE = ".harborignore"
_HARBORIGNORE_SCOPES = GitIgnoreSpec.from_lines(
    ("/tests/", "/solution/", "/steps/*/tests/", "/steps/*/solution/")
)


class Kind(StrEnum):
    """What an entry of a task's folder is."""

    FILE = "file"
    FOLDER = "folder"
    LINK = "link"


class ArchiveRefusedError(Exception):
    """An entry cannot be part of a task; `path` is relative to the task's folder."""

    def __init__(self, path: str, problem: str, fix: str) -> None:
        super().__init__(f"{path}: {problem}; {fix}")
        self.path, self.problem, self.fix = path, problem, fix


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a task's folder. `path` is relative and slash-separated; `open` gives a file's bytes."""

    path: str
    kind: Kind = Kind.FILE
    size: int = 0
    executable: bool = False
    target: str = ""
    """Where a link points, as it is written."""
    open: Callable[[], BinaryIO] = io.BytesIO

    @classmethod
    def of_bytes(cls, path: str, content: bytes, *, executable: bool = False) -> "Entry":
        """A file whose bytes are in memory."""
        return cls(path, Kind.FILE, len(content), executable, open=lambda: io.BytesIO(content))


@dataclass(frozen=True, slots=True)
class ArchiveFacts:
    """What a ledger records about an archive: sha256 over its bytes, and how many those are."""

    digest: str
    size: int


class _HashedOutput(io.RawIOBase):
    def __init__(self, output: IO[bytes] | None) -> None:
        self._output, self._hash, self.size = output, hashlib.sha256(), 0

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]  # tarfile writes bytes alone
        self._hash.update(data)
        self.size += len(data)
        if self._output is not None:
            self._output.write(data)
        return len(data)

    def facts(self) -> ArchiveFacts:
        return ArchiveFacts(f"sha256:{self._hash.hexdigest()}", self.size)


def write_archive(entries: Iterable[Entry], output: IO[bytes] | None = None) -> ArchiveFacts:
    """Writes the archive to `output` (None: only computes the digest) in bounded memory.

    Raises ArchiveRefusedError for a link out of the task or a name that not every machine can hold.
    """
    ordered = sorted(entries, key=lambda entry: entry.path)
    _check_names(ordered)
    hashed = _HashedOutput(output)
    with tarfile.open(fileobj=hashed, mode="w|", format=tarfile.PAX_FORMAT, encoding="utf-8") as tar:
        for entry in ordered:
            member = _member(entry, ordered)
            if entry.kind is Kind.FILE:
                with entry.open() as content:
                    tar.addfile(member, content)
            else:
                tar.addfile(member)
    return hashed.facts()


def _member(entry: Entry, entries: Sequence[Entry]) -> tarfile.TarInfo:
    # A TarInfo of its own has owner 0, no names and time 0.
    member = tarfile.TarInfo(entry.path)
    match entry.kind:
        case Kind.FOLDER:
            member.type, member.mode = tarfile.DIRTYPE, PROGRAM_MODE
        case Kind.LINK:
            _check_link(entry, {other.path for other in entries})
            member.type, member.mode, member.linkname = tarfile.SYMTYPE, 0o777, entry.target
        case Kind.FILE:
            member.size = entry.size
            member.mode = PROGRAM_MODE if entry.executable else FILE_MODE
    return member


def _check_names(entries: Sequence[Entry]) -> None:
    for entry in entries:
        if not entry.path.isprintable() or "\\" in entry.path:
            raise ArchiveRefusedError(
                ascii(entry.path), "the name holds a control character or a backslash", "rename it"
            )


def _check_link(entry: Entry, paths: set[str]) -> None:
    target = posixpath.normpath(posixpath.join(posixpath.dirname(entry.path), entry.target))
    if entry.target.startswith("/") or target == ".." or target.startswith("../"):
        raise ArchiveRefusedError(
            entry.path, f"a symbolic link out of the task, to {entry.target}", "put the file itself there"
        )
    if target not in paths:
        raise ArchiveRefusedError(
            entry.path,
            f"a symbolic link to {entry.target}, which does not exist",
            "put the file itself there",
        )


def harbor_digest(entries: Sequence[Entry]) -> str:
    """The content digest that Harbor 0.26 would publish: sha256 over sorted lines of path and file digest.

    It leaves out modes, files that are ignored, and everything outside of the folders that Harbor knows.
    """
    outer = hashlib.sha256()
    for entry in harbor_selection(entries):
        outer.update(f"{entry.path}\0{_file_digest(entry)}\n".encode())
    return f"sha256:{outer.hexdigest()}"


def harbor_selection(entries: Sequence[Entry]) -> list[Entry]:
    """The files that Harbor's digest covers, sorted by path; a link to a file is its file's bytes."""
    by_path = {entry.path: entry for entry in entries}
    ignored = _gitignore(by_path)
    harborignored = _HarborIgnore(by_path)
    found = []
    for entry in sorted(entries, key=lambda one: one.path):
        file = _followed(entry, by_path)
        known = entry.path in _HARBOR_FILES or entry.path.startswith(_HARBOR_FOLDERS)
        if file is None or not known or ignored.match_file(entry.path):
            continue
        if entry.path not in _HARBOR_FILES and (
            harborignored.excludes(entry.path) or harborignored.excludes(file.path)
        ):
            continue
        found.append(Entry(entry.path, Kind.FILE, file.size, file.executable, open=file.open))
    return found


def uploaded_but_not_in_digest(entries: Sequence[Entry]) -> list[str]:
    """Paths of files that Harbor would copy into a container although its digest leaves them out."""
    covered = {entry.path for entry in harbor_selection(entries)}
    harborignored = _HarborIgnore({entry.path: entry for entry in entries})
    return [
        entry.path
        for entry in sorted(entries, key=lambda one: one.path)
        if entry.kind is Kind.FILE
        and entry.path.startswith(_HARBOR_FOLDERS)
        and entry.path not in covered
        and not harborignored.excludes(entry.path)
    ]


def _followed(entry: Entry, by_path: dict[str, Entry]) -> Entry | None:
    for _ in range(40):
        if entry.kind is not Kind.LINK:
            return entry if entry.kind is Kind.FILE else None
        target = posixpath.normpath(posixpath.join(posixpath.dirname(entry.path), entry.target))
        if target not in by_path:
            return None
        entry = by_path[target]
    return None


def _gitignore(by_path: dict[str, Entry]) -> PathSpec[Any]:
    lines: Sequence[str] = _HARBOR_DEFAULT_IGNORES
    if own := by_path.get(".gitignore"):
        lines = _text(own).splitlines()
    return PathSpec.from_lines("gitignore", lines)


class _HarborIgnore:
    """Rules of `.harborignore` files, inherited from folder to folder, in tests/ and solution/ alone."""

    def __init__(self, by_path: dict[str, Entry]) -> None:
        self._by_path = by_path
        self._rules: dict[str, GitIgnoreSpec] = {}

    def excludes(self, path: str) -> bool:
        if posixpath.basename(path) == _HARBORIGNORE:
            return True
        if not _HARBORIGNORE_SCOPES.match_file(path):
            return False
        parts = path.split("/")
        active: list[tuple[str, GitIgnoreSpec]] = []
        for depth in range(1, len(parts) + 1):
            folder = "/".join(parts[: depth - 1])
            if folder and _HARBORIGNORE_SCOPES.match_file(f"{folder}/") and (rules := self._of(folder)):
                active.append((folder, rules))
            candidate = "/".join(parts[:depth]) + ("/" if depth < len(parts) else "")
            excluded = False
            for origin, rules in active:
                verdict = rules.check_file(candidate[len(origin) + 1 :]).include
                excluded = excluded if verdict is None else verdict
            if excluded:
                return True
        return False

    def _of(self, folder: str) -> GitIgnoreSpec | None:
        entry = self._by_path.get(f"{folder}/{_HARBORIGNORE}")
        if entry is None:
            return None
        if folder not in self._rules:
            self._rules[folder] = GitIgnoreSpec.from_lines(_text(entry).splitlines())
        return self._rules[folder]


def _text(entry: Entry) -> str:
    with entry.open() as content:
        return content.read().decode()


def _file_digest(entry: Entry) -> str:
    digest = hashlib.sha256()
    with entry.open() as content:
        while chunk := content.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
