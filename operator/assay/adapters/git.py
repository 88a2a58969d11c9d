"""Reads git repositories: files and trees of a commit, and the tree that a working copy would have.

Nothing is written into the repository: indexes and new objects go to a temporary folder.
"""

import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from assay.core.archive import Entry, Kind

_LINK_MODE = "120000"
_PROGRAM_MODE = "100755"
_SUBMODULE_MODE = "160000"


_OF_ANOTHER = (
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
)
"""Git sets these for its hooks; they would name the hook's repository, whichever folder is asked about."""


class GitError(Exception):
    """Git cannot do what is asked; the message is git's own, with the repository."""


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """A file of a commit: its git mode (`100644`, `100755`, `120000`), object id, and path."""

    mode: str
    object: str
    path: str


class GitRepository:
    """A repository with or without a working copy; `root` is the working copy's top where there is one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        try:
            top = self._run("rev-parse", "--show-toplevel").decode().strip()
        except GitError as error:
            if "work tree" not in str(error):
                raise
            top = ""
        self.root = Path(top) if top else folder

    def commit(self, reference: str) -> str:
        """The full hash of a commit. Raises GitError where there is none."""
        return (
            self._run("rev-parse", "--verify", "--end-of-options", f"{reference}^{{commit}}").decode().strip()
        )

    def read(self, commit: str, path: str) -> bytes | None:
        """The bytes of a file at a commit; None if it is not there."""
        entry = next((one for one in self.files(commit, [path]) if one.path == path), None)
        return None if entry is None else self._run("cat-file", "blob", entry.object)

    def files(self, commit: str, paths: Sequence[str] = ()) -> list[TreeEntry]:
        """Every file of a commit at or below the paths."""
        output = self._run("ls-tree", "-r", "-z", "--full-tree", commit, "--", *paths)
        return list(_parsed(output))

    def history(self, commit: str, path: str) -> list[str]:
        """Commits up to `commit` that changed the path, the newest first."""
        return self._run("log", "--format=%H", commit, "--", _top(path)).decode().split()

    def tree_of_commit(self, commit: str, paths: Sequence[str], left_out: Sequence[str]) -> str:
        """The git tree over exactly the files below `paths`, without those at or below `left_out`."""
        with self._scratch() as environment:
            return self._tree(environment, self.files(commit, paths), left_out)

    def tree_of_working_copy(self, paths: Sequence[str], left_out: Sequence[str]) -> str:
        """The same of the working copy as it would be committed: ignored files take no part."""
        with self._scratch() as environment:
            try:
                # Files that are tracked although they are ignored are known from here alone.
                self._run("read-tree", "HEAD", environment=environment)
            except GitError:
                self._run("read-tree", "--empty", environment=environment)
            places = [_top(path) for path in paths]
            self._run("add", "--all", "--", *places, environment=environment)
            output = self._run("ls-files", "-s", "-z", "--full-name", "--", *places, environment=environment)
            return self._tree(environment, list(_parsed(output)), left_out)

    def _tree(
        self, environment: Mapping[str, str], files: Sequence[TreeEntry], left_out: Sequence[str]
    ) -> str:
        kept = [one for one in files if not any(_below(one.path, other) for other in left_out)]
        lines = b"".join(f"{one.mode} {one.object}\t{one.path}\0".encode() for one in kept)
        self._run("read-tree", "--empty", environment=environment)
        self._run("update-index", "-z", "--index-info", environment=environment, given=lines)
        return self._run("write-tree", "--missing-ok", environment=environment).decode().strip()

    @contextmanager
    def blobs(self) -> "Iterator[BlobReader]":
        """A reader of many blobs in one process."""
        command = self._command("cat-file", "--batch")
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=_environment()
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            yield BlobReader(process.stdin, process.stdout)
            process.stdin.close()

    @contextmanager
    def _scratch(self) -> Iterator[dict[str, str]]:
        objects = self._run("rev-parse", "--git-path", "objects").decode().strip()
        with tempfile.TemporaryDirectory(prefix="assay-git-") as scratch:
            (Path(scratch) / "objects").mkdir()
            yield {
                "GIT_INDEX_FILE": str(Path(scratch) / "index"),
                "GIT_OBJECT_DIRECTORY": str(Path(scratch) / "objects"),
                "GIT_ALTERNATE_OBJECT_DIRECTORIES": str((self._folder / objects).resolve()),
            }

    def _command(self, *arguments: str) -> list[str]:
        return ["git", "-C", str(self._folder), "-c", "core.quotePath=false", *arguments]

    def _run(
        self,
        *arguments: str,
        environment: Mapping[str, str] | None = None,
        given: bytes = b"",
    ) -> bytes:
        try:
            done = subprocess.run(
                self._command(*arguments),
                input=given,
                capture_output=True,
                env={**_environment(), **(environment or {})},
                check=False,
            )
        except FileNotFoundError as error:
            raise GitError("git is not installed") from error
        if done.returncode:
            words = done.stderr.decode(errors="replace").strip() or f"exit status {done.returncode}"
            raise GitError(f"{self._folder}: git {arguments[0]}: {words}")
        return done.stdout


def _environment() -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if name not in _OF_ANOTHER}
    return own | {"LC_ALL": "C"}


class BlobReader:
    """`git cat-file --batch`."""

    def __init__(self, asked: IO[bytes], answers: IO[bytes]) -> None:
        self._asked, self._answers = asked, answers

    def read(self, object_id: str) -> bytes:
        """The bytes of a blob. Raises GitError where the repository lacks it, e.g. in a partial clone."""
        self._asked.write(f"{object_id}\n".encode())
        self._asked.flush()
        heading = self._answers.readline().split()
        if not heading:
            raise GitError(f"git cat-file ended before it answered for object {object_id}: try again")
        if len(heading) != 3:
            raise GitError(f"object {object_id} is not in the repository")
        content = self._answers.read(int(heading[2]))
        self._answers.read(1)
        return content


def by_folder(files: Sequence[TreeEntry], parent: str) -> dict[str, list[TreeEntry]]:
    """The files below each folder directly below `parent`, by the folder's name; paths are relative to it."""
    found: dict[str, list[TreeEntry]] = {}
    for one in files:
        name, _, path = one.path.removeprefix(f"{parent}/").partition("/")
        if one.path.startswith(f"{parent}/") and path and one.mode != _SUBMODULE_MODE:
            found.setdefault(name, []).append(TreeEntry(one.mode, one.object, path))
    return found


def folder_entries(files: Sequence[TreeEntry], blobs: BlobReader) -> list[Entry]:
    """The files as the entries that `read_task_folder` would give of a checkout."""
    found: dict[str, Entry] = {}
    for one in files:
        parts = one.path.split("/")
        for depth in range(1, len(parts)):
            parent = "/".join(parts[:depth])
            found.setdefault(parent, Entry(parent, Kind.FOLDER))
        content = blobs.read(one.object)
        if one.mode == _LINK_MODE:
            found[one.path] = Entry(one.path, Kind.LINK, target=content.decode(errors="surrogateescape"))
        else:
            found[one.path] = Entry.of_bytes(one.path, content, executable=one.mode == _PROGRAM_MODE)
    return list(found.values())


def _parsed(output: bytes) -> Iterator[TreeEntry]:
    for record in output.split(b"\0"):
        if record:
            facts, _, path = record.partition(b"\t")
            words = facts.decode().split()
            # ls-tree: mode type object; ls-files -s: mode object stage.
            yield TreeEntry(
                words[0], words[2] if words[1] in _TYPES else words[1], path.decode(errors="surrogateescape")
            )


_TYPES = frozenset({"blob", "tree", "commit"})


def _top(path: str) -> str:
    return f":(top,literal){path}"


def _below(path: str, other: str) -> bool:
    return path == other or path.startswith(f"{other}/")
