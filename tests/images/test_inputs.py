"""An image is built again when, and only when, what it is made of changed; and the reason is named."""

from pathlib import Path

import pytest

from images.catalogue import CatalogueError, Image
from images.inputs import explain_change, inputs_of


@pytest.fixture
def image(tmp_path: Path) -> Image:
    """A small image with two files in a folder."""
    (tmp_path / "source").mkdir()
    (tmp_path / "source/a.py").write_text("a")
    (tmp_path / "source/run.sh").write_text("run")
    (tmp_path / "Containerfile").write_text("FROM scratch")
    context = {"source": tmp_path / "source"}
    return Image(
        "small", "core", ("small:1",), tmp_path / "Containerfile", context, "python", {"VERSION": "1"}
    )


def test_nothing_changed_gives_the_same_digest(image: Image) -> None:
    assert inputs_of(image, "base").digest == inputs_of(image, "base").digest


def test_each_change_is_named(image: Image, tmp_path: Path) -> None:
    before = inputs_of(image, "base")
    (tmp_path / "source/a.py").write_text("b")
    (tmp_path / "source/run.sh").chmod(0o755)
    (tmp_path / "source/new.py").write_text("")
    now = inputs_of(image, "other base")
    assert now.digest != before.digest
    reason = explain_change(before.parts, now, shown=9)
    assert reason == "base changed, source/a.py changed, source/new.py added, source/run.sh changed"


def test_many_changes_are_counted(image: Image, tmp_path: Path) -> None:
    before = inputs_of(image, "base")
    for number in range(5):
        (tmp_path / f"source/{number}.py").write_text("")
    assert explain_change(before.parts, inputs_of(image, "base")).endswith("2.py added and 2 more")


def test_first_build_and_lost_result_have_reasons_too(image: Image) -> None:
    inputs = inputs_of(image, "base")
    assert explain_change(None, inputs) == "not built before"
    assert explain_change(inputs.parts, inputs) == "its result is no longer in the cache"


@pytest.mark.parametrize("name", ["__pycache__/a.pyc", "a_test.go", "testdata/corpus", ".a.py.swp", "a.py~"])
def test_leavings_and_tests_cause_no_build(image: Image, tmp_path: Path, name: str) -> None:
    before = inputs_of(image, "base")
    path = tmp_path / "source" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("x")
    assert inputs_of(image, "base").digest == before.digest


def test_missing_file_is_named(image: Image, tmp_path: Path) -> None:
    (tmp_path / "Containerfile").unlink()
    with pytest.raises(CatalogueError, match=r"image small: .*/Containerfile is missing"):
        inputs_of(image, "base")
