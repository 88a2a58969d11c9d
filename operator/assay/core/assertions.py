"""Failing assertions: what fails before a task is solved, read from the task's own files and normalised.

Read are the tests that a task names as fail-to-pass (`tests/*.json` with `f2p_node_ids` or `FAIL_TO_PASS`)
and the assertion lines that its test patches add. What cannot be read is said, never guessed.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from assay.api.ledgerfile import AssertionSource, FailingAssertions
from assay.core.task_checks import TaskSource

MAX_LINES = 64
MAX_LINE = 300
_ID_KEYS = ("f2p_node_ids", "FAIL_TO_PASS", "fail_to_pass")

_ASSERTION = re.compile(
    r"""^\s*(?:
        assert\b                                              # Python, Java, Groovy
      | (?:self|this|Assert|Assertions|assert|require|t|s)\.(?:
          [aA]ssert\w*|[eE]qual\w*|[nN]ot\w*|[tT]rue|[fF]alse|[cC]ontains\w*|[eE]rror\w*|[fF]atal\w*|Nil|Len|Empty|deep\w*|strict\w*|ok|throws|rejects|is\w*)\(
      | (?:debug_)?assert\w*!\s*\(                            # Rust
      | (?:await\s+)?expect\w*\s*\(                           # JavaScript
      | (?:assertEquals|assertTrue|assertFalse|assertThat|assertThrows|assertNull|assertNotNull)\s*\(
      | with\s+pytest\.raises\b
      | if\s+.*(?:!=|!reflect\.DeepEqual|!bytes\.Equal|!strings\.Contains).*\{\s*$   # Go's usual form
    )""",
    re.VERBOSE,
)
_TEST_START = re.compile(
    r"""^\s*(?:
        (?:async\s+)?def\s+(?P<python>test\w*)
      | func\s+(?:\([^)]*\)\s*)?(?P<go>Test\w+|Benchmark\w+|Fuzz\w+)
      | (?:pub\s+)?(?:async\s+)?fn\s+(?P<rust>\w+)\s*\(
      | (?:public\s+|private\s+|protected\s+|static\s+)*void\s+(?P<java>\w+)\s*\(
      | (?:export\s+)?const\s+(?P<const>test\w+)\s*=
      | (?:it|test)(?:\.\w+)*\s*\(\s*(?P<quote>["'`])(?P<js>.*?)(?P=quote)
    )""",
    re.VERBOSE,
)
_NORMAL = (
    (re.compile(r"0x[0-9a-fA-F]+"), "ADDR"),
    (re.compile(r"""(["'`])(?:\\.|(?!\1).)*\1"""), "STR"),
    (re.compile(r"(?:\.{0,2}/)?(?:[\w.-]+/)+[\w.-]+"), "PATH"),
    (re.compile(r"\b\d[\d_.]*(?:e[+-]?\d+)?\b"), "N"),
    (re.compile(r"\s+"), " "),
)


@dataclass(frozen=True, slots=True)
class _Line:
    test: str | None
    """The test function or case around the line, as far as the patch shows it."""
    text: str


def normalised(line: str) -> str:
    """The line without what differs by chance: addresses, quoted texts, paths, numbers, spaces."""
    for pattern, word in _NORMAL:
        line = pattern.sub(word, line)
    return line.strip()[:MAX_LINE]


def failing_assertions(task: TaskSource) -> FailingAssertions:
    """What the task's files say about what fails before it is solved."""
    names, problem = _fail_to_pass(task)
    lines = [line for path in _patches(task) for line in _assertion_lines(task.text(path) or "")]
    short = {known for name in names for known in _names_in_source(name)}
    named = [line.text for line in lines if line.test in short]
    if named:
        return _record(AssertionSource.NAMED_TESTS, names, named)
    if lines:
        note = "no body of a fail-to-pass test was recognised" if names else "no fail-to-pass test is named"
        return _record(AssertionSource.TEST_PATCH, names, [line.text for line in lines], problem or note)
    if names:
        return _record(AssertionSource.TEST_IDS, names, names, problem or "no assertion line was recognised")
    words = problem or "the task names no fail-to-pass tests and has no test patch with assertions"
    return FailingAssertions(source=AssertionSource.UNREADABLE, note=words)


def _record(
    source: AssertionSource, names: Sequence[str], lines: Sequence[str], note: str | None = None
) -> FailingAssertions:
    # Names of tests stay as they are: digits and slashes in them are what tells them apart.
    shape = (lambda text: text[:MAX_LINE]) if source is AssertionSource.TEST_IDS else normalised
    found = {text for line in lines if (text := shape(line))}
    # The smallest hashes are a fair sample, whatever the order: two samples overlap as the wholes do.
    kept = sorted(found, key=lambda text: hashlib.sha256(text.encode()).digest())[:MAX_LINES]
    return FailingAssertions(
        source=source, tests=len(names), lines=sorted(kept), found=len(found), note=note and note[:300]
    )


def _fail_to_pass(task: TaskSource) -> tuple[list[str], str | None]:
    """The named tests, sorted, and what could not be read."""
    found: set[str] = set()
    problem = None
    for path in sorted(task.entries):
        if not (path.startswith("tests/") and path.endswith(".json") and path.count("/") == 1):
            continue
        text = task.text(path) or ""
        if not any(f'"{key}"' in text for key in _ID_KEYS):
            continue
        try:
            found |= set(_ids(json.loads(text)))
        except (ValueError, RecursionError) as error:
            problem = f"{path} cannot be read: {error}"
    return sorted(found), problem


def _ids(document: object) -> Iterator[str]:
    if not isinstance(document, dict):
        return
    for key in _ID_KEYS:
        value = document.get(key)
        if isinstance(value, str):
            # SWE-bench writes the list as a text that holds JSON.
            value = json.loads(value)
        if isinstance(value, list):
            yield from (one for one in value if isinstance(one, str) and one.strip())


def _names_in_source(identity: str) -> Iterator[str]:
    """Names that may stand in the test's source, of a pytest, go test or JUnit-like id."""
    for separator in (" > ", "::", ": "):
        if separator in identity:
            identity = identity.rsplit(separator, 1)[1]
    identity = re.sub(r"\[.*\]$", "", identity).strip()
    if " " in identity:
        # Jest and mocha put the names of all groups before the test's own, with nothing but a space between.
        words = identity.split(" ")
        yield from (" ".join(words[start:]) for start in range(len(words) - 1))
    elif go := re.search(r"\.(Test\w+)((?:/.*)?)$", identity):
        # A subtest stands in the body of its parent, or is a method of a suite.
        yield go[1]
        yield from (part for part in go[2].split("/") if part.startswith("Test"))
    else:
        yield re.split(r"[.#]", identity)[-1]


def _patches(task: TaskSource) -> Iterator[str]:
    return (
        path
        for path in sorted(task.entries)
        if path.endswith((".patch", ".diff")) and (path.startswith("tests/") or "/tests/" in path)
    )


def _assertion_lines(patch: str) -> Iterator[_Line]:
    test = None
    for line in patch.splitlines():
        if line.startswith(("diff --git", "+++", "---")):
            test = None
            continue
        if line.startswith("@@"):
            # A hunk names the function that it is in, where git recognised one.
            test = _test_name(line.rpartition("@@")[2])
            continue
        if not line.startswith(("+", " ")):
            continue
        text = line[1:]
        test = _test_name(text) or test
        if line.startswith("+") and len(text) < 2000 and _ASSERTION.match(text):
            yield _Line(test, text)


def _test_name(text: str) -> str | None:
    if len(text) > 2000 or not (match := _TEST_START.match(text)):
        return None
    return next((value for key, value in match.groupdict().items() if value and key != "quote"), None)
