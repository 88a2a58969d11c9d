"""Verifier images that need no build: a `tests/Dockerfile` that only copies files into the task's image."""

import shlex
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from assay.core.dockerfile import Instruction, first_that_needs_a_build, instructions


class DockerfileNeedsBuild(RuntimeError):
    """A Dockerfile does more than copy files; the message names the line and the fix."""


@dataclass(frozen=True, slots=True)
class Copy:
    """A file or directory of the build context and where it goes in the container."""

    source: Path
    target: PurePosixPath


@dataclass(frozen=True, slots=True)
class CopyOnlyDockerfile:
    """What a Dockerfile of nothing but FROM, COPY and chmod does."""

    copies: tuple[Copy, ...]
    programs: tuple[PurePosixPath, ...]
    """Files that it makes executable."""


def read_copy_only(dockerfile: Path) -> CopyOnlyDockerfile:
    """Read a Dockerfile of nothing but FROM, COPY, WORKDIR, LABEL and `RUN chmod`.

    Raises DockerfileNeedsBuild where it holds anything else: then the image is built when the ledger is.
    """
    parsed = instructions(dockerfile.read_text())
    refused = first_that_needs_a_build(parsed)
    if refused is not None:
        raise DockerfileNeedsBuild(
            f"{dockerfile.parent.name}/{dockerfile.name} line {refused.line} "
            f"({refused.word} {refused.rest[:60]}) needs a build: build the verifier image when the ledger "
            "is built and name it by digest in the ledger's images.verifier"
        )
    copies: list[Copy] = []
    programs: list[PurePosixPath] = []
    workdir = PurePosixPath("/")
    for one in parsed:
        if one.word == "WORKDIR":
            workdir /= one.rest
        elif one.word == "COPY":
            copies += _copies(dockerfile, one, workdir)
        elif one.word == "RUN":
            programs += _programs(one, workdir)
    return CopyOnlyDockerfile(tuple(copies), tuple(programs))


def _copies(dockerfile: Path, one: Instruction, workdir: PurePosixPath) -> list[Copy]:
    *sources, target = shlex.split(one.rest)
    into_directory = target.endswith("/") or target == "." or len(sources) > 1
    context = dockerfile.parent.resolve()
    copies = []
    for name in sources:
        source = (context / name.lstrip("/")).resolve()
        if not source.is_relative_to(context) or not source.exists():
            raise DockerfileNeedsBuild(
                f"{dockerfile.parent.name}/{dockerfile.name} line {one.line} copies {name}, "
                "which its folder does not hold"
            )
        destination = workdir / target
        if source.is_file() and into_directory:
            destination /= source.name
        copies.append(Copy(source, destination))
    return copies


def _programs(one: Instruction, workdir: PurePosixPath) -> list[PurePosixPath]:
    _, mode, *paths = one.rest.split()
    return [] if mode.endswith("644") else [workdir / path for path in paths]
