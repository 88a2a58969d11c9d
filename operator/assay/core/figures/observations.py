"""What the figures are computed from: the tasks of a ledger, and one observation for each attempt.

The rules of a suite (what is zeroed, what is run again) have been applied before. An attempt without a valid
result is an observation whose reward is None; an attempt without any observation counts the same.
"""

import math
from dataclasses import dataclass
from enum import StrEnum


class FiguresError(ValueError):
    """The input cannot be scored; the message names the field and the fix."""


class Refusal(StrEnum):
    """Whether a refusal took part in an attempt's retained try."""

    NONE = "None"
    FALLBACK = "Fallback"
    """A model refused and another one finished: scored as any other attempt."""
    BLOCKED = "Blocked"
    """Refused to the end, after every re-run that the suite allows: scored 0."""


class HackingVerdict(StrEnum):
    """What the judge for reward hacking said of an attempt's retained try."""

    NOT_READ = "NotRead"
    """No judge read it: normal where the verifier gave 0, a gap in the rate where the reward is above 0."""
    CLEAN = "Clean"
    FLAGGED = "Flagged"
    """The verifier let it pass and the judge did not; `reward` is what the suite makes of that, mostly 0."""


@dataclass(frozen=True, slots=True)
class TaskFacts:
    """What the ledger says of a task: its cluster (design §1) and the labels that scores are grouped by."""

    task: str
    cluster: str
    category: str | None = None
    language: str | None = None
    difficulty: str | None = None


@dataclass(frozen=True, slots=True)
class LedgerTasks:
    """The tasks of one ledger and how many repetitions (from 0) of each are planned: every denominator.

    Raises FiguresError where a task is named twice, or there is no task or no repetition.
    """

    ledger: str
    tasks: tuple[TaskFacts, ...]
    repetitions: int

    def __post_init__(self) -> None:
        """Refuse what has no denominator."""
        if not self.tasks:
            raise FiguresError(f"ledger {self.ledger}: tasks is empty; a ledger has at least one task")
        if type(self.repetitions) is not int or self.repetitions < 1:
            raise FiguresError(
                f"ledger {self.ledger}: repetitions is {self.repetitions!r}; give a whole number from 1"
            )
        seen: set[str] = set()
        for facts in self.tasks:
            if facts.task in seen:
                raise FiguresError(f"ledger {self.ledger}: task {facts.task} is listed twice; list it once")
            seen.add(facts.task)


@dataclass(frozen=True, slots=True)
class Observation:
    """One attempt as scored: (task, variant, repetition from 0) is its identity within a ledger.

    `reward` and `first_try_reward` are from 0 to 1. `reward` is the retained try's, None where no try gave a
    valid result; `first_try_reward` is what the first try alone gave, None where that was no valid result.
    Raises FiguresError for a boolean, a string, NaN or a number outside 0 to 1.
    """

    task: str
    variant: str
    repetition: int
    reward: float | None
    first_try_reward: float | None = None
    refusal: Refusal = Refusal.NONE
    hacking: HackingVerdict = HackingVerdict.NOT_READ

    def __post_init__(self) -> None:
        """Refuse rewards that would change a mean in silence."""
        self._check("reward", self.reward)
        self._check("first_try_reward", self.first_try_reward)

    @property
    def valid(self) -> bool:
        """Whether the attempt has a result, be it 0."""
        return self.reward is not None

    def _check(self, field: str, value: float | None) -> None:
        if value is None:
            return
        if type(value) not in (int, float) or not math.isfinite(value) or not 0 <= value <= 1:
            raise FiguresError(
                f"task {self.task}, variant {self.variant}, repetition {self.repetition}: "
                f"{field} is {value!r}; give a finite number from 0 to 1, or None without a valid result"
            )
