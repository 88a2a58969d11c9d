"""Which commit an image's source is of, for the record that the image's programs leave."""

import subprocess
from collections.abc import Iterable
from pathlib import Path

_DIRTY = "-dirty"


def source_commit(paths: Iterable[str], root: Path) -> str:
    """The newest commit that touched `paths`, so that an unrelated commit rebuilds nothing.

    With `-dirty` in place of its last digits where the checkout differs from it, so that it still fits the 40
    characters of a commit in every record; empty outside of a Git checkout.
    """
    chosen = list(paths)
    commit = _git(root, "log", "-1", "--format=%H", "--", *chosen)
    if not commit:
        return ""
    return (
        f"{commit[: -len(_DIRTY)]}{_DIRTY}" if _git(root, "status", "--porcelain", "--", *chosen) else commit
    )


def _git(root: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()
