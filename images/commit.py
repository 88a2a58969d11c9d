"""Which commit an image's source is of, for the record that the image's programs leave."""

import subprocess
from collections.abc import Iterable
from pathlib import Path


def source_commit(paths: Iterable[str], root: Path) -> str:
    """The newest commit that touched `paths`, so that an unrelated commit rebuilds nothing.

    With `-dirty` where the checkout differs from it; empty outside of a Git checkout.
    """
    chosen = list(paths)
    commit = _git(root, "log", "-1", "--format=%H", "--", *chosen)
    if not commit:
        return ""
    return f"{commit}-dirty" if _git(root, "status", "--porcelain", "--", *chosen) else commit


def _git(root: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()
