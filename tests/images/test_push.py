"""What is pushed again and what is not."""

from pathlib import Path

import pytest

from images import push
from images.push import LocalRegistry, push_new
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
