"""Verifier images that need no build: a `tests/Dockerfile` that only copies files into the task's image."""

from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from assay.core.dockerfile import Copied, copied, first_that_needs_a_build, instructions, made_executable


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
        elif copy := copied(one):
            copies += _copies(dockerfile, one.line, copy, workdir)
        programs += [workdir / path for path in made_executable(one)]
    return CopyOnlyDockerfile(tuple(copies), tuple(programs))


def _copies(dockerfile: Path, line: int, copy: Copied, workdir: PurePosixPath) -> list[Copy]:
    context = dockerfile.parent.resolve()
    copies = []
    for name in copy.sources:
        source = (context / name.lstrip("/")).resolve()
        if not source.is_relative_to(context) or not source.exists():
            raise DockerfileNeedsBuild(
                f"{dockerfile.parent.name}/{dockerfile.name} line {line} copies {name}, "
                "which its folder does not hold"
            )
        destination = workdir / copy.target
        if source.is_file() and copy.into_folder:
            destination /= source.name
        copies.append(Copy(source, destination))
    return copies
