"""The commit that an image records is that of its own source."""

import subprocess
from pathlib import Path

import pytest

from images.commit import source_commit


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q")
    for name in ("source", "elsewhere"):
        (tmp_path / name).mkdir()
        commit(tmp_path, f"{name}/file", "first")
    return tmp_path


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.test", "-c", "commit.gpgsign=false"]
    done = subprocess.run(
        ["git", "-C", str(folder), *identity, *arguments], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def commit(folder: Path, path: str, text: str) -> str:
    (folder / path).write_text(text)
    git(folder, "add", path)
    git(folder, "commit", "-q", "-m", text)
    return git(folder, "rev-parse", "HEAD")


def test_an_unrelated_commit_changes_nothing(checkout: Path) -> None:
    own = commit(checkout, "source/file", "second")
    commit(checkout, "elsewhere/file", "third")
    assert source_commit(["source"], checkout) == own


def test_a_changed_checkout_says_so(checkout: Path) -> None:
    own = commit(checkout, "source/file", "second")
    (checkout / "source" / "file").write_text("not committed")
    assert source_commit(["source"], checkout) == f"{own[:34]}-dirty"


def test_without_git_there_is_none(tmp_path: Path) -> None:
    assert source_commit(["source"], tmp_path) == ""
