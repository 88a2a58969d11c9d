"""What a verifier's figures are worth: a reward, or why there is none (cases.md BAR 5)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from assay.api.outcome import OutcomeClass

PRIMARY = "reward"
CRASH = -1
"""What DeepSWE's verifier writes when it failed itself."""
UNSCORED = "num_unscored_must_have"
"""How many rubrics SWE-Atlas-QnA's judge left unanswered; its own reward leaves them out of account."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A reward from 0 to 1; or None, with the class of the failure and its reason."""

    reward: float | None
    outcome: OutcomeClass
    reason: str = ""
    figures: Mapping[str, float] = field(default_factory=dict)


def read_figures(figures: Mapping[str, Any] | None) -> Reading:
    """Read all figures of a verifier. A boolean, a string, NaN and a reward above 1 are no verdict."""
    if not figures:
        return Reading(None, OutcomeClass.VERIFIER_CRASH, "the verifier gave no reward")
    for name, value in figures.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            return _invalid(f"{name} is {value!r}, not a finite number")
    if PRIMARY not in figures and len(figures) > 1:
        return _invalid(f"no figure is called {PRIMARY!r}; there are {', '.join(sorted(figures)[:10])}")
    reward = float(figures[PRIMARY] if PRIMARY in figures else next(iter(figures.values())))
    known = {name: float(value) for name, value in figures.items()}
    if reward == CRASH:
        return Reading(
            None, OutcomeClass.VERIFIER_CRASH, "the verifier reported its own failure: reward -1", known
        )
    if not 0 <= reward <= 1:
        return _invalid(f"the reward is {reward:g}, not from 0 to 1")
    if known.get(UNSCORED, 0) > 0:
        return Reading(
            None,
            OutcomeClass.JUDGE_INCOMPLETE,
            f"the judge left {known[UNSCORED]:g} must-have rubrics unanswered: the attempt is ungraded",
            known,
        )
    return Reading(reward, OutcomeClass.GRADED, "", known)


def _invalid(reason: str) -> Reading:
    return Reading(None, OutcomeClass.INVALID_RESULT, reason)
