"""Base images made locally, for machines that reach Debian packages but no image registry."""

import hashlib
import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from images import ImagesError

SUITE = "trixie"
BUILD_EPOCH = 1_764_460_800  # 2025-11-30: one time for every file, so that equal inputs give equal layers
_GO_OMITTED = ("test", "doc", "misc", "api")


class RootfsError(ImagesError):
    """A base could not be made; the message says what is missing."""


@dataclass(frozen=True)
class Base:
    """A base: the public image that it stands in for, and how to make it without a registry.

    `make` writes the tar that `folder/Containerfile` adds; `identity` changes when the result would.
    """

    name: str
    public: str | None
    folder: str
    archive: str
    parent: str | None
    identity: Callable[[], Mapping[str, str]]
    make: Callable[[Path], None]

    def digest(self) -> str:
        """Hex sha256 of the base's identity and its parent's."""
        facts = dict(self.identity())
        if self.parent:
            facts["parent"] = BASES[self.parent].digest()
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()

    @property
    def reference(self) -> str:
        """The name in the builder's own storage."""
        return f"localhost/assay/base/{self.name}:{self.digest()[:12]}"


_WITHOUT_MANUALS = (
    "--dpkgopt=path-exclude=/usr/share/man/*",
    "--dpkgopt=path-exclude=/usr/share/locale/*",
    "--dpkgopt=path-exclude=/usr/share/info/*",
    "--dpkgopt=path-exclude=/usr/share/doc/*",
    "--dpkgopt=path-include=/usr/share/doc/*/copyright",
)


def _debian(name: str, public: str | None, options: tuple[str, ...], packages: str) -> Base:
    arguments = ["--variant=minbase", *options, f"--include={packages}", SUITE]

    def make(target: Path) -> None:
        if shutil.which("mmdebstrap") is None:
            raise RootfsError(
                f"the base {name} needs mmdebstrap: `apt-get install mmdebstrap`, "
                "or take public bases (--bases public)"
            )
        environment = {**os.environ, "SOURCE_DATE_EPOCH": str(BUILD_EPOCH)}
        command = ["mmdebstrap", *arguments, str(target)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            tail = "\n".join(done.stderr.splitlines()[-15:])
            raise RootfsError(f"mmdebstrap could not make the base {name}:\n{tail}")

    return Base(
        name, public, "images/base", "rootfs.tar", None, lambda: {"mmdebstrap": " ".join(arguments)}, make
    )


def _go_root() -> Path:
    if shutil.which("go") is None:
        raise RootfsError(
            "the base go needs the Go toolchain on this machine, or take public bases (--bases public)"
        )
    answer = subprocess.run(["go", "env", "GOROOT"], capture_output=True, text=True, check=True, cwd="/")
    return Path(answer.stdout.strip())


def _make_go(target: Path) -> None:
    root = _go_root()
    with tarfile.open(target, "w") as archive:
        for entry in sorted(root.iterdir()):
            if entry.name not in _GO_OMITTED:
                archive.add(entry, f"go/{entry.name}")


def _go_version() -> str:
    # Reading the file, not running `go version`: this is on the path of a build with nothing to do.
    go = shutil.which("go")
    root = Path(go).resolve().parent.parent if go else None
    version = root / "VERSION" if root else None
    return version.read_text().split()[0] if version and version.is_file() else "unknown"


BASES = {
    base.name: base
    for base in (
        _debian(
            "python",
            "docker.io/library/python:3.13-slim-trixie",
            _WITHOUT_MANUALS,
            "ca-certificates,python3,python3-venv",
        ),
        Base(
            "go",
            "docker.io/library/golang:1.26",
            "images/base-go",
            "go.tar",
            "python",
            lambda: {"go": _go_version()},
            _make_go,
        ),
        # DeepSWE has no public stand-in: its Containerfiles expect exactly these packages.
        _debian(
            "deepswe",
            None,
            (),
            "ca-certificates,git,golang-go,python3,python3-pip,python3-venv,python-is-python3,procps,tmux",
        ),
    )
}
