"""Verifier images that need no build: a `tests/Dockerfile` that only copies files into the task's image."""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

_IGNORED = ("LABEL", "MAINTAINER")
_CHMOD = re.compile(r"^chmod\s+(?P<mode>\+x|a\+x|0?755|0?644)\s+(?P<paths>[-\w./ ]+)$")


class DockerfileNeedsBuild(RuntimeError):
    """A Dockerfile does more than copy files; the message names the line."""


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
    """Read a Dockerfile of nothing but FROM, COPY, WORKDIR and `RUN chmod`.

    Raises DockerfileNeedsBuild where it holds anything else: then the image is built when the ledger is.
    """
    copies: list[Copy] = []
    programs: list[PurePosixPath] = []
    workdir = PurePosixPath("/")
    froms = 0
    for number, line in _instructions(dockerfile):
        word, _, rest = line.partition(" ")
        rest = rest.strip()
        match word.upper():
            case "FROM" if froms == 0 and " as " not in rest.lower():
                froms += 1
            case "COPY":
                copies += _copies(dockerfile, number, rest, workdir)
            case "WORKDIR" if "$" not in rest:
                workdir = workdir / rest
            case "RUN" if match := _CHMOD.fullmatch(rest):
                programs += [
                    workdir / path for path in match["paths"].split() if not match["mode"].endswith("644")
                ]
            case keyword if keyword in _IGNORED:
                continue
            case _:
                raise _needs_build(dockerfile, number, line)
    return CopyOnlyDockerfile(tuple(copies), tuple(programs))


def _instructions(dockerfile: Path) -> list[tuple[int, str]]:
    found, pending, start = [], "", 0
    for number, raw in enumerate(dockerfile.read_text().splitlines(), start=1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        start = start if pending else number
        if line.endswith("\\"):
            pending += line[:-1] + " "
            continue
        found.append((start, pending + line))
        pending = ""
    return found


def _copies(dockerfile: Path, number: int, rest: str, workdir: PurePosixPath) -> list[Copy]:
    try:
        words = shlex.split(rest)
    except ValueError:
        words = []
    # Flags (--from, --chown), variables, wildcards and the JSON form change what is copied.
    if len(words) < 2 or any(set(word) & set("$*?[]") or word.startswith(("--", "<<")) for word in words):
        raise _needs_build(dockerfile, number, f"COPY {rest}")
    *sources, target = words
    into_directory = target.endswith("/") or target == "." or len(sources) > 1
    copies = []
    context = dockerfile.parent.resolve()
    for name in sources:
        source = (context / name.lstrip("/")).resolve()
        if not source.is_relative_to(context) or not source.exists():
            raise DockerfileNeedsBuild(
                f"{dockerfile.name} line {number} copies {name}, which its folder does not hold"
            )
        destination = workdir / target
        if source.is_file() and into_directory:
            destination = destination / source.name
        copies.append(Copy(source, destination))
    return copies


def _needs_build(dockerfile: Path, number: int, line: str) -> DockerfileNeedsBuild:
    return DockerfileNeedsBuild(
        f"{dockerfile.parent.name}/{dockerfile.name} line {number} ({line[:80]!r}) needs a build: build the "
        "verifier image when the ledger is built and name it by digest in the ledger's images.verifier"
    )
