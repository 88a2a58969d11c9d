"""Which images there are, and what a wrong description or name says to its author."""

from pathlib import Path

import pytest

from images.catalogue import ROOT, CatalogueError, core_images, example_images, select
from images.deepswe import deepswe_images

TASK = '[environment]\ndocker_image = "{image}"\n'


def write_task(root: Path, name: str, image: str, dockerfile: str) -> None:
    folder = root / "examples/tasks" / name
    (folder / "environment").mkdir(parents=True)
    (folder / "task.toml").write_text(TASK.format(image=image))
    (folder / "environment/Dockerfile").write_text(dockerfile)


def test_core_images_bear_the_projects_version() -> None:
    references = {image.name: image.references for image in core_images()}
    assert set(references) == {"operator", "runner", "sandboxd", "model-server"}
    assert references["operator"] == ("assay.test/operator:0.1.0",)


def test_tasks_on_one_base_commit_share_an_image(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_task(tmp_path, name, "assay.test/examples/shared:1", "FROM scratch")
    (image,) = example_images(tmp_path)
    assert image.references == ("assay.test/examples/shared:1",)


def test_tasks_that_share_a_name_but_differ_are_refused(tmp_path: Path) -> None:
    write_task(tmp_path, "one", "assay.test/examples/shared:1", "FROM scratch")
    write_task(tmp_path, "two", "assay.test/examples/shared:1", "FROM other")
    with pytest.raises(CatalogueError, match=r"two/task.toml: docker_image is .*, as in one, but"):
        example_images(tmp_path)


def test_task_without_an_image_name_is_refused(tmp_path: Path) -> None:
    write_task(tmp_path, "one", "", "FROM scratch")
    with pytest.raises(CatalogueError, match=r"one/task.toml: \[environment\] docker_image is missing"):
        example_images(tmp_path)


def test_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(
        CatalogueError, match=r"named 'opertor'; known are: core, examples, deepswe, .*operator"
    ):
        select(["opertor"])


def test_missing_data_set_names_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_SHARED", str(tmp_path))
    with pytest.raises(CatalogueError, match=r"deepswe-v1\.1\.tar\.xz, which is missing; .* ASSAY_SHARED"):
        deepswe_images(ROOT)


@pytest.mark.corpus
@pytest.mark.skipif(not (ROOT.parent / "shared/datasets").exists(), reason="../shared/datasets is not there")
def test_deepswe_images_bear_the_names_that_the_tasks_give() -> None:
    images = {image.name: image for image in deepswe_images(ROOT)}
    assert len(images) == 5
    references = [reference for image in images.values() for reference in image.references]
    assert len(references) == len(set(references)) == 6
    assert all(reference.endswith("-v1.1") for reference in references)
    # Two tasks start from this commit, under two names.
    assert len(images["deepswe/bandit-b46fa3a"].references) == 2


def test_what_operator_and_runner_have_alike_stays_alike() -> None:
    """Two files on purpose: in one, a change for the operator would make another runner too."""
    stages = [
        (ROOT / f"images/{name}/Containerfile").read_text().partition("\nFROM dependencies\n")[0]
        for name in ("operator", "runner")
    ]
    operator, runner = (stage.partition("\n")[2] for stage in stages)
    assert "COPY requirements/runner.txt" in runner
    assert operator == runner.replace("requirements/runner.txt", "requirements/operator.txt")
