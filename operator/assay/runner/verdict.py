"""The verifier's reward files, read again from scratch.

Harbor reads `true` as 1, takes the first of two files that disagree and calls -1 a valid reward
(harbor.md §1, cases.md BAR 5). What decides here is what the files say.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from assay.api.outcome import OutcomeClass
from assay.core.verdict import PRIMARY, read_figures

_LARGEST_FILE = 1 << 20
_CLOCK_SLACK_SECONDS = 2.0


class BadVerdict(RuntimeError):
    """There is no usable verdict; `outcome` says of which kind the failure is."""

    def __init__(self, outcome: OutcomeClass, message: str) -> None:
        super().__init__(message)
        self.outcome = outcome


@dataclass(frozen=True, slots=True)
class Verdict:
    """A finite reward from 0 to 1, and all figures that the verifier gave."""

    reward: float
    rewards: dict[str, float] = field(default_factory=dict)


def read_verdict(folder: Path, not_before: float) -> Verdict:
    """The verdict in a verifier's output folder.

    Args:
        not_before: Unix time at which the verifier began; an older file is not its work.

    Raises BadVerdict.
    """
    from_json = _read(folder / "reward.json", not_before)
    from_text = _read(folder / "reward.txt", not_before)
    if from_json is None and from_text is None:
        raise BadVerdict(OutcomeClass.VERIFIER_CRASH, "the verifier wrote neither reward.json nor reward.txt")
    text = _number(from_text) if from_text is not None else None
    if from_json is None:
        return verdict_of({PRIMARY: text})
    verdict = verdict_of(_figures(from_json))
    if text is not None and verdict.reward != text:
        raise _invalid(f"reward.json says {verdict.reward:g}, reward.txt says {text:g}")
    return verdict


def verdict_of(figures: Mapping[str, Any]) -> Verdict:
    """The verdict that these figures are. Raises BadVerdict."""
    reading = read_figures(figures)
    if reading.reward is None:
        raise BadVerdict(reading.outcome, reading.reason)
    return Verdict(reading.reward, dict(reading.figures))


def _read(path: Path, not_before: float) -> str | None:
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise _invalid(f"{path.name} is not a regular file")
    if not path.exists():
        return None
    status = path.stat()
    if status.st_size > _LARGEST_FILE:
        raise _invalid(f"{path.name} has {status.st_size} bytes")
    if status.st_mtime < not_before - _CLOCK_SLACK_SECONDS:
        raise _invalid(f"{path.name} is older than the verifier's start")
    text = path.read_bytes().decode(errors="replace").strip()
    if not text:
        raise BadVerdict(OutcomeClass.VERIFIER_CRASH, f"{path.name} is empty")
    return text


def _figures(text: str) -> dict[str, Any]:
    try:
        figures = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _invalid(f"reward.json is not JSON: {error}") from error
    if not isinstance(figures, dict) or not figures:
        raise _invalid(f"reward.json is not an object of figures: {text[:100]}")
    return figures


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise _invalid(f"reward.txt is not a number: {text[:100]!r}") from error


def _invalid(message: str) -> BadVerdict:
    return BadVerdict(OutcomeClass.INVALID_RESULT, message)
