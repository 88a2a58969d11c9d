"""Which images there are, what each is built from, and the names that pods use for them."""

import os
import posixpath
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from images import ImagesError
from images.commit import source_commit

ROOT = Path(__file__).resolve().parent.parent
REGISTRY_NAME = "assay.test"
DEFAULT_GROUPS = ("core", "examples")
GROUPS = (*DEFAULT_GROUPS, "deepswe")

# A test, a cache or an editor's leaving never reaches an image, so it must not cause a build.
_IGNORED_PARTS = {"__pycache__", ".git", ".mypy_cache", ".ruff_cache", "testdata"}
_IGNORED_NAMES = re.compile(r".*\.pyc|.*_test\.go|\..*\.sw.|.*~")

PYTHON_SOURCE = ("pyproject.toml", "README.md", "LICENSE", "operator/assay")


class CatalogueError(ImagesError):
    """An image is described wrongly, or a name is not known; the message says which and what to do."""


@dataclass(frozen=True)
class Image:
    """One image to build.

    `references` are the names that pods use (more than one when task files share an image), `context` maps
    a path in the build context to a file or folder, `base` names a local base (see `rootfs`), and
    `mount_ca` mounts the machine's certificate bundle for Containerfiles that ask for no secret.
    """

    name: str
    group: str
    references: tuple[str, ...]
    containerfile: Path
    context: Mapping[str, Path]
    base: str
    arguments: Mapping[str, str] = field(default_factory=dict)
    mount_ca: bool = False

    def files(self) -> dict[str, Path]:
        """Each file of the build context by its path there, the Containerfile included, in order."""
        for source in (self.containerfile, *self.context.values()):
            if not source.exists():
                raise CatalogueError(f"image {self.name}: {source} is missing")
        found = {"Containerfile": self.containerfile}
        for target, source in self.context.items():
            found |= _files_below(target, source)
        return dict(sorted(found.items()))


def _files_below(target: str, source: Path) -> dict[str, Path]:
    if source.is_file():
        return {target: source}
    files = {}
    # Strings and not paths: this is most of what a build with nothing to do takes.
    for folder, folders, names in os.walk(source):
        folders[:] = [name for name in folders if name not in _IGNORED_PARTS]
        inside = posixpath.normpath(f"{target}/{os.path.relpath(folder, source)}")
        for name in names:
            if name not in _IGNORED_PARTS and not _IGNORED_NAMES.fullmatch(name):
                path = Path(folder, name)
                if path.is_file():
                    files[posixpath.normpath(f"{inside}/{name}")] = path
    return files


def project_version(root: Path = ROOT) -> str:
    """The version in `pyproject.toml`, which is the tag of the project's own images."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    return str(project["version"])


def core_images(root: Path = ROOT) -> list[Image]:
    """The images that the chart installs, and the scripted model server."""
    version = project_version(root)

    def image(name: str, folder: str, base: str, context: Mapping[str, Path], **arguments: str) -> Image:
        reference = f"{REGISTRY_NAME}/{name}:{version}"
        containerfile = root / folder / "Containerfile"
        return Image(name, "core", (reference,), containerfile, context, base, arguments)

    def python_image(name: str) -> Image:
        sources = {f"source/{path}": root / path for path in PYTHON_SOURCE}
        pins = {f"requirements/{pin}.txt": root / f"requirements/{pin}.txt" for pin in (name, "build")}
        commit = {"COMMIT": source_commit(PYTHON_SOURCE, root)} if name == "runner" else {}
        return image(name, f"images/{name}", "python", sources | pins, **commit)

    model_server = root / "examples/model-server"
    sandboxd = {path: root / "images/sandboxd" / path for path in ("go.mod", "go.sum", "cmd", "internal")}
    return [
        image("sandboxd", "images/sandboxd", "go", sandboxd),
        python_image("operator"),
        python_image("runner"),
        image("model-server", "examples/model-server", "python", {"server": model_server / "scripted_model"}),
    ]


def example_images(root: Path = ROOT) -> list[Image]:
    """The images of `examples/tasks`, under the names that their task files give."""
    images: dict[str, Image] = {}
    for task_file in sorted((root / "examples/tasks").glob("*/task.toml")):
        reference = _docker_image(tomllib.loads(task_file.read_text()), task_file)
        environment = task_file.parent / "environment"
        image = Image(
            name=reference.removeprefix(f"{REGISTRY_NAME}/").partition(":")[0],
            group="examples",
            references=(reference,),
            containerfile=environment / "Dockerfile",
            context={".": environment},
            base="python",
        )
        # Tasks on one base commit share an image, so their environment folders must be the same.
        other = images.setdefault(reference, image)
        if not _same_files(other, image):
            first = other.containerfile.parent.parent.name
            raise CatalogueError(
                f"{task_file}: docker_image is {reference}, as in {first}, but the two environment folders "
                "differ; make them equal or give one another image name"
            )
    return list(images.values())


def _same_files(one: Image, other: Image) -> bool:
    mine, theirs = one.files(), other.files()
    return mine.keys() == theirs.keys() and all(mine[p].read_bytes() == theirs[p].read_bytes() for p in mine)


def _docker_image(task: Mapping[str, Any], source: object) -> str:
    reference = task.get("environment", {}).get("docker_image")
    if not isinstance(reference, str) or not reference:
        raise CatalogueError(f"{source}: [environment] docker_image is missing; name the image, with a tag")
    return reference


def select(names: Iterable[str], root: Path = ROOT) -> list[Image]:
    """The images that `names` (short names, references or groups) ask for; no name means the default groups.

    Raises CatalogueError for a name that nothing bears.
    """
    from images.deepswe import deepswe_images

    wanted = list(names)
    known = core_images(root) + example_images(root)
    if any(name == "deepswe" or "deepswe" in name for name in wanted):
        known += deepswe_images(root)
    if not wanted:
        return known
    chosen: dict[str, Image] = {}
    for name in wanted:
        matches = [image for image in known if name in (image.name, image.group, *image.references)]
        if not matches:
            bearers = ", ".join([*GROUPS, *(image.name for image in known)])
            raise CatalogueError(f"no image or group is named {name!r}; known are: {bearers}")
        chosen |= {image.name: image for image in matches}
    return list(chosen.values())
