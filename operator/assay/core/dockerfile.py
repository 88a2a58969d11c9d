"""Reads a Dockerfile far enough to know what it copies, and whether it needs a build at all."""

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

_CHMOD = re.compile(r"chmod\s+(?P<mode>\+x|a\+x|0?755|0?644)\s+(?P<paths>[-\w./ ]+)")
_HEREDOC = re.compile(r"<<-?\s*[\"']?(\w+)[\"']?")
_UNREADABLE = set("$*?[]")


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction, its continuation lines joined. `word` is in upper case."""

    line: int
    word: str
    rest: str


@dataclass(frozen=True, slots=True)
class Copied:
    """What a COPY or ADD says: its options, what it takes from the build context, and where that goes."""

    options: tuple[str, ...]
    sources: tuple[str, ...]
    target: str

    @property
    def into_folder(self) -> bool:
        """Whether the target is a folder even for a single file."""
        return self.target.endswith("/") or self.target == "." or len(self.sources) > 1


def instructions(text: str) -> list[Instruction]:
    """The instructions of a Dockerfile, without comments and the bodies of here-documents."""
    found: list[Instruction] = []
    pending, start, heredoc = "", 0, ""
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.strip()
        if heredoc:
            heredoc = "" if line == heredoc else heredoc
            continue
        if not line or line.startswith("#"):
            continue
        start = start if pending else number
        if line.endswith("\\"):
            pending += line[:-1] + " "
            continue
        word, _, rest = (pending + line).partition(" ")
        found.append(Instruction(start, word.upper(), rest.strip()))
        pending = ""
        if match := _HEREDOC.search(rest):
            heredoc = match[1]
    return found


def base_image(parsed: Sequence[Instruction]) -> str | None:
    """The image after FROM if it is the only one and no variable is in it."""
    froms = [one.rest for one in parsed if one.word == "FROM"]
    if len(froms) != 1 or " " in froms[0] or "$" in froms[0]:
        return None
    return froms[0]


def copied_sources(parsed: Sequence[Instruction]) -> list[tuple[int, str]]:
    """Line and path of every file or folder of the build context that COPY or ADD names plainly.

    Sources with variables or wildcards, of other stages, and from the network are left out.
    """
    return [
        (one.line, source)
        for one in parsed
        if (copy := copied(one)) and not any(option.startswith("--from") for option in copy.options)
        for source in copy.sources
        if not set(source) & _UNREADABLE and "://" not in source and not source.startswith("<<")
    ]


def copied(one: Instruction) -> Copied | None:
    """What a COPY or ADD says; None for any other instruction, and for one that cannot be read."""
    words = _words(one.rest) if one.word in {"COPY", "ADD"} else []
    plain = tuple(word for word in words if not word.startswith("--"))
    if len(plain) < 2:
        return None
    return Copied(tuple(word for word in words if word.startswith("--")), plain[:-1], plain[-1])


def made_executable(one: Instruction) -> tuple[str, ...]:
    """Paths that a plain `RUN chmod` makes executable; none for any other instruction."""
    match = _CHMOD.fullmatch(one.rest) if one.word == "RUN" else None
    if match is None or match["mode"].endswith("644"):
        return ()
    return tuple(match["paths"].split())


def first_that_needs_a_build(parsed: Sequence[Instruction]) -> Instruction | None:
    """The first instruction beyond FROM, COPY, WORKDIR, LABEL and `RUN chmod`; None if there is none.

    A Dockerfile without one needs no build: its files are copied into the pristine image.
    """
    froms = 0
    for one in parsed:
        froms += one.word == "FROM"
        if not _is_plain(one) or froms > 1:
            return one
    return None


def _is_plain(one: Instruction) -> bool:
    match one.word:
        case "FROM":
            return " " not in one.rest
        case "LABEL" | "MAINTAINER":
            return True
        case "WORKDIR":
            return "$" not in one.rest
        case "COPY":
            copy = copied(one)
            return (
                copy is not None
                and not copy.options
                and not any(
                    set(word) & _UNREADABLE or word.startswith("<<") for word in (*copy.sources, copy.target)
                )
            )
        case "RUN":
            return _CHMOD.fullmatch(one.rest) is not None
        case _:
            return False


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return []
