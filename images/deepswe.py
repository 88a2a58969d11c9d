"""The images of real DeepSWE tasks, rebuilt from the source snapshots that lie beside the checkout."""

import os
import tarfile
import tomllib
from collections.abc import Collection
from pathlib import Path

from images.catalogue import CatalogueError, Image, _docker_image

_ARCHIVE = "deepswe-v1.1.tar.xz"


def shared_datasets(root: Path) -> Path:
    """The folder `datasets` of `../shared`, or of `$ASSAY_SHARED`; CatalogueError if there is none."""
    shared = Path(os.environ.get("ASSAY_SHARED") or root.parent / "shared")
    datasets = shared / "datasets"
    if not (datasets / _ARCHIVE).is_file():
        raise CatalogueError(
            f"the DeepSWE images need {datasets / _ARCHIVE}, which is missing; "
            "put the data set there or name its parent folder in ASSAY_SHARED"
        )
    return datasets


def deepswe_images(root: Path) -> list[Image]:
    """One image a base commit, with one reference for each task that runs on it."""
    datasets = shared_datasets(root)
    entries = tomllib.loads((root / "images/deepswe.toml").read_text())["image"]
    names = _image_names(datasets / _ARCHIVE, {task for entry in entries for task in entry["tasks"]})
    context = datasets / "images"
    return [
        Image(
            name=f"deepswe/{entry['arguments']['REPO']}",
            group="deepswe",
            references=tuple(dict.fromkeys(names[task] for task in entry["tasks"])),
            containerfile=context / entry["containerfile"],
            context={
                f"repos/{entry['arguments']['REPO']}.tar.gz": context
                / f"repos/{entry['arguments']['REPO']}.tar.gz"
            },
            base="deepswe",
            arguments=entry["arguments"],
            mount_ca=True,
        )
        for entry in entries
    ]


def _image_names(archive: Path, tasks: Collection[str]) -> dict[str, str]:
    """The `docker_image` of each task, read from the archive without unpacking it."""
    names: dict[str, str] = {}
    with tarfile.open(archive) as members:
        for member in members:
            path = Path(member.name)
            if (
                path.name == "task.toml"
                and path.parent.name in tasks
                and (file := members.extractfile(member))
            ):
                names[path.parent.name] = _docker_image(tomllib.loads(file.read().decode()), member.name)
    if missing := set(tasks) - names.keys():
        raise CatalogueError(f"{archive} holds no task named {', '.join(sorted(missing))}")
    return names
