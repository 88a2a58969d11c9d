"""What an image is made from, as one digest, and in words what of it changed."""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from images.catalogue import Image

# Part of every digest: raise it when the tool begins to make different images of the same inputs.
TOOL_VERSION = "1"


@dataclass(frozen=True)
class Inputs:
    """The inputs of one image: a label (file, argument, base) with the digest or value of each."""

    parts: Mapping[str, str]

    @property
    def digest(self) -> str:
        """Hex sha256 over all labels and values."""
        return hashlib.sha256(json.dumps(dict(self.parts), sort_keys=True).encode()).hexdigest()


def inputs_of(image: Image, base: str) -> Inputs:
    """Reads and hashes all files of the image's build context; `base` identifies what it is built on."""
    parts = {"base": base, "tool": TOOL_VERSION}
    parts |= {f"argument {name}": value for name, value in image.arguments.items()}
    parts |= {path: _file_digest(source) for path, source in image.files().items()}
    return Inputs(parts)


def _file_digest(path: Path) -> str:
    status = path.stat()
    digest = _content_digest(path, status.st_size, status.st_mtime_ns, status.st_ino)
    return f"{'755' if _executable(status) else '644'} {digest}"


@cache
def _content_digest(path: Path, *_version: int) -> str:
    """Images share sources, and `push` asks again what `build` asked; another version is read anew."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def is_executable(path: Path) -> bool:
    """Whether the owner may execute the file: the only bit of its mode that reaches an image."""
    return _executable(path.stat())


def _executable(status: os.stat_result) -> bool:
    return bool(status.st_mode & 0o100)


def explain_change(before: Mapping[str, str] | None, now: Inputs, shown: int = 3) -> str:
    """Why an image has to be built, for a progress line."""
    if before is None:
        return "not built before"
    changes = [
        f"{label} {_kind(before, now.parts, label)}"
        for label in sorted({*before, *now.parts})
        if before.get(label) != now.parts.get(label)
    ]
    if not changes:
        return "its result is no longer in the cache"
    more = f" and {len(changes) - shown} more" if len(changes) > shown else ""
    return ", ".join(changes[:shown]) + more


def _kind(before: Mapping[str, str], now: Mapping[str, str], label: str) -> str:
    if label not in before:
        return "added"
    return "changed" if label in now else "removed"
