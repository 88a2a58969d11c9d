"""What is pushed again and what is not."""

from pathlib import Path

import pytest

from images import push
from images.push import LocalRegistry, push_all, push_new, repository
from images.store import Built


@pytest.fixture
def pushed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """References that reach the registry, in order."""
    references: list[str] = []

    def record(images: list[tuple[str, Built]], *_: object, **__: object) -> list[str]:
        references.extend(reference for reference, _ in images)
        return [reference for reference, _ in images]

    monkeypatch.setattr(push, "push_all", record)
    return references


def built(digit: str) -> Built:
    return Built("sha256:" + digit * 64, Path("/layout"))


def test_only_what_this_start_of_the_cluster_lacks_is_pushed(tmp_path: Path, pushed: list[str]) -> None:
    registry = LocalRegistry("127.0.0.1:5000", list, tmp_path / "pushed.json")
    push_new([("a:1", built("1")), ("b:1", built("2"))], registry)
    push_new([("a:1", built("1")), ("b:1", built("3"))], registry)
    assert pushed == ["a:1", "b:1", "b:1"], "an unchanged image is not pushed again, a changed one is"


def test_a_new_cluster_gets_everything(tmp_path: Path, pushed: list[str]) -> None:
    registry = LocalRegistry("127.0.0.1:5000", list, tmp_path / "pushed.json")
    push_new([("a:1", built("1"))], registry)
    registry.memory.unlink()
    push_new([("a:1", built("1"))], registry)
    assert pushed == ["a:1", "a:1"]


def test_a_damaged_memory_is_no_memory(tmp_path: Path, pushed: list[str]) -> None:
    registry = LocalRegistry("127.0.0.1:5000", list, tmp_path / "pushed.json")
    registry.memory.write_text("{")
    push_new([("a:1", built("1"))], registry)
    assert pushed == ["a:1"]


CRANE = """#!/bin/sh
for reference; do :; done
repository=$(dirname "$0")/$(echo "${reference%:*}" | tr / _)
mkdir "$repository" || { echo "two pushes into $repository at a time" >&2; exit 1; }
sleep 0.1
rmdir "$repository"
echo "$reference@sha256:$(printf '1%.0s' $(seq 64))"
"""


def test_one_repository_gets_one_image_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crane = tmp_path / "crane"
    crane.write_text(CRANE)
    crane.chmod(0o755)
    monkeypatch.setenv("ASSAY_CRANE", str(crane))
    references = ["bench/tasks:one", "bench/tasks:two", "bench/other:one", "bench/tasks:three"]
    answers = push_all([(reference, built("1")) for reference in references], "127.0.0.1:5000")
    assert sorted(answer.partition("@")[0] for answer in answers) == sorted(
        f"127.0.0.1:5000/{reference}" for reference in references
    )


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("127.0.0.1:5000/a/b:1", "127.0.0.1:5000/a/b"),
        ("127.0.0.1:5000/a/b", "127.0.0.1:5000/a/b"),
        ("a:1", "a"),
        ("a", "a"),
    ],
)
def test_repository_is_the_reference_without_its_tag(reference: str, expected: str) -> None:
    assert repository(reference) == expected
