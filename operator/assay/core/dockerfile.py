"""Reads a Dockerfile far enough to know what it copies, and whether it needs a build at all."""

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

_CHMOD = re.compile(r"chmod\s+(\+x|a\+x|0?755|0?644)\s+[-\w./ ]+")
_HEREDOC = re.compile(r"<<-?\s*[\"']?(\w+)[\"']?")
_UNREADABLE = set("$*?[]")


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction, its continuation lines joined. `word` is in upper case."""

    line: int
    word: str
    rest: str


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
    found = []
    for one in parsed:
        words = _words(one.rest) if one.word in {"COPY", "ADD"} else []
        if any(word.startswith("--from") for word in words):
            continue
        plain = [word for word in words if not word.startswith("--")]
        found += [
            (one.line, source)
            for source in plain[:-1]
            if not set(source) & _UNREADABLE and "://" not in source and not source.startswith("<<")
        ]
    return found


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
            words = _words(one.rest)
            return len(words) >= 2 and not any(
                set(word) & _UNREADABLE or word.startswith(("--", "<<")) for word in words
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
