"""docs/faults.md promises tests: they exist. It explains outcomes: none is missing."""

import re
from pathlib import Path

import pytest

from assay.api.outcome import OutcomeClass

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/faults.md").read_text()
_ELSEWHERE = frozenset({OutcomeClass.CONTEXT_EXCEEDED, OutcomeClass.STOPPED})
"""Rule 3 explains ContextExceeded by its kind; Stopped is a wish of a person, no fault."""


@pytest.fixture(scope="module")
def existing() -> frozenset[str]:
    sources = (path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    return frozenset(name for source in sources for name in re.findall(r"def (test_\w+)", source))


def test_every_test_that_the_page_names_exists(existing: frozenset[str]) -> None:
    named = set(re.findall(r"`(test_\w+)`", PAGE))
    assert len(named) > 50
    assert named - existing == set()


@pytest.mark.parametrize("outcome", sorted(set(OutcomeClass) - _ELSEWHERE))
def test_every_outcome_is_explained(outcome: OutcomeClass) -> None:
    assert re.search(rf"`[^`]*\b{outcome.value}`", PAGE)


def test_every_row_names_a_test() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith("| ---")]
    without = [row for row in rows if "`test_" not in row and not row.startswith("| fault |")]
    assert without == []
