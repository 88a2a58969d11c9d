"""Grades an answer by the rubric: every criterion must be met. Exit status 0 if so.

A criterion is met if one of `any_of` matches, all of `all_of` match and none of `none_of` does. The same
answer always gets the same grade; /logs/verifier/rubric.json says which criteria were met.
"""

import json
import re
import sys
from pathlib import Path

ANSWER = Path("/logs/artifacts/answer.md")
LONGEST_ANSWER = 20_000


def main() -> None:
    """Reads the answer, writes the grades."""
    try:
        answer = " ".join(ANSWER.read_text()[:LONGEST_ANSWER].split())
    except (OSError, ValueError) as error:
        sys.exit(f"there is no answer: {error}")
    rubric = json.loads((Path(__file__).parent / "rubric.json").read_text())
    grades = {criterion["id"]: is_met(criterion, answer) for criterion in rubric}
    Path("/logs/verifier/rubric.json").write_text(json.dumps(grades, indent=2) + "\n")
    print(json.dumps(grades, indent=2))
    sys.exit(0 if all(grades.values()) else 1)


def is_met(criterion: dict, answer: str) -> bool:
    """Whether the answer, with its white space collapsed, meets one criterion."""
    any_of, all_of, none_of = (criterion.get(key, []) for key in ("any_of", "all_of", "none_of"))

    def matches(pattern: str) -> bool:
        return re.search(pattern, answer, re.IGNORECASE) is not None

    return (
        (not any_of or any(map(matches, any_of)))
        and all(map(matches, all_of))
        and not any(map(matches, none_of))
    )


if __name__ == "__main__":
    main()
