"""The end of `make test`: what failed in any of its sessions, and one closing line as pytest writes it.

CI keeps little more than the end of its output, and the sessions' own is long.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

CHARACTERS = 6000
"""So much is said about all failures together."""
LEAST_CHARACTERS = 300
"""So much at least about each."""

_FAILURES = {"failure": "failed", "error": "errors"}
_ORDER = ("failed", "passed", "skipped", "errors")


@dataclass(frozen=True)
class Session:
    """What one pytest process counted, and the test and the words of each failure."""

    counts: Counter[str]
    failures: tuple[tuple[str, str], ...]


def read_session(results: Path) -> Session:
    """A session from its JUnit file; a session that left none counts as one error."""
    try:
        cases = list(ElementTree.parse(results).iter("testcase"))  # noqa: S314  pytest wrote it just now
    except (OSError, ElementTree.ParseError) as error:
        words = f"the session ended without results ({error}); its output above says why"
        return Session(Counter(errors=1), ((results.stem, words),))
    outcomes = Counter(_outcome(case) for case in cases)
    return Session(outcomes, tuple(failure for case in cases for failure in _failures(case)))


def closing(sessions: list[Session], seconds: int) -> str:
    """Every failure's own words, as many as there is room for, and the sum."""
    failures = [failure for session in sessions for failure in session.failures]
    room = max(LEAST_CHARACTERS, CHARACTERS // max(1, len(failures)))
    lines = [f"FAILED {name}\n{_indented(words[-room:])}" for name, words in failures]
    counts = sum((session.counts for session in sessions), Counter[str]())
    said = ", ".join(f"{counts[name]} {name}" for name in _ORDER if counts[name]) or "no tests ran"
    return "\n".join([*lines, f"======== {said} in {seconds}.00s ========"])


def _outcome(case: ElementTree.Element) -> str:
    return next(
        (_FAILURES.get(child.tag, child.tag) for child in case if child.tag in (*_FAILURES, "skipped")),
        "passed",
    )


def _failures(case: ElementTree.Element) -> Iterator[tuple[str, str]]:
    name = f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name', '')}"
    for child in case:
        if child.tag in _FAILURES:
            yield name, _own_words(child.text or child.get("message") or "")


def _own_words(text: str) -> str:
    """The lines in which pytest says what was wrong and where, without the source around them."""
    kept = [line for line in text.splitlines() if line.startswith("E ") or _is_place(line)]
    return "\n".join(kept) or text


def _is_place(line: str) -> bool:
    return line[:1].strip() != "" and ".py:" in line


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())


def main() -> None:
    """Prints the end of `make test`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", nargs="+", type=Path, help="the sessions' JUnit files, also those missing")
    parser.add_argument("--seconds", type=int, required=True, help="what all took")
    asked = parser.parse_args()
    sys.stdout.write(closing([read_session(path) for path in asked.results], asked.seconds) + "\n")


if __name__ == "__main__":
    main()
