"""What becomes of every attempt of a run, by a script: a function of the attempt and the try number alone.

The script is also the oracle: it says which tries there must be, which of them is the result, and all sums.
"""

import hashlib
import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from typing import Literal

from assay.api.outcome import OutcomeClass
from assay.core.record import AttemptKey

LIMITS = {"infrastructure": 2, "disruption": 2, "verification": 2, "refusal": 2}
"""`spec.retryLimits` that the fates below assume."""


@dataclass(frozen=True)
class End:
    """How one try ends: what its runner wrote, and what the kubelet says."""

    outcome: OutcomeClass
    manifest: bool = True
    artifacts: bool = False
    exit_code: int = 0
    reason: str = ""
    disruption: str = ""
    loses: Literal["", "Job", "pod"] = ""
    """What somebody deletes by hand under it, once its manifest is written if it has one."""

    @property
    def graded(self) -> bool:
        return self.outcome is OutcomeClass.GRADED

    @property
    def graded_as(self) -> OutcomeClass | None:
        """Class of the attempt once the artefacts have a verdict; None where none are stored."""
        return OutcomeClass.GRADED if self.artifacts else None


GRADED = End(OutcomeClass.GRADED)
SETUP_FAILED = End(OutcomeClass.SETUP_FAILED)
NO_RESULT = End(OutcomeClass.RESULT_MISSING, manifest=False)
DISRUPTED = End(OutcomeClass.DISRUPTED, manifest=False, exit_code=137, disruption="PreemptionByScheduler")
OUT_OF_MEMORY = End(OutcomeClass.AGENT_OOM, manifest=False, exit_code=137, reason="OOMKilled")
VERDICT_LATE = End(OutcomeClass.VERIFIER_TIMEOUT, artifacts=True)
REFUSED = End(OutcomeClass.REFUSED_BLOCKED)
JOB_LOST = End(OutcomeClass.DISRUPTED, manifest=False, loses="Job")
JOB_LOST_WITH_RESULT = End(OutcomeClass.GRADED, loses="Job")
POD_LOST = End(OutcomeClass.DISRUPTED, manifest=False, loses="pod")


class Fate(Enum):
    """The ends of an attempt's tries in their order; where they lead under LIMITS is `result`."""

    SOUND = (GRADED,)
    SETUP_FAILS_ONCE = (SETUP_FAILED, GRADED)
    DISRUPTED_TWICE = (DISRUPTED, DISRUPTED, GRADED)
    OUT_OF_MEMORY = (OUT_OF_MEMORY,)
    NO_RESULT_ONCE = (NO_RESULT, GRADED)
    SETUP_ALWAYS_FAILS = (SETUP_FAILED, SETUP_FAILED, SETUP_FAILED)
    REFUSED_ALWAYS = (REFUSED, REFUSED, REFUSED)
    VERDICT_FAILS_ONCE = (VERDICT_LATE, GRADED)
    ALWAYS_DISRUPTED = (DISRUPTED, DISRUPTED, DISRUPTED)
    JOB_DELETED = (JOB_LOST, GRADED)
    JOB_DELETED_WITH_RESULT = (JOB_LOST_WITH_RESULT,)
    POD_DELETED_BY_FORCE = (POD_LOST, GRADED)

    @property
    def ends(self) -> tuple[End, ...]:
        found: tuple[End, ...] = self.value
        return found

    @property
    def scored(self) -> bool:
        """Whether the last try is the attempt's result; else the attempt is invalid."""
        return self not in (Fate.SETUP_ALWAYS_FAILS, Fate.ALWAYS_DISRUPTED)


TROUBLES = tuple(fate for fate in Fate if fate is not Fate.SOUND)


@dataclass(frozen=True)
class Script:
    """Fates by attempt. Rewards are quarters and sums of tokens whole, so every sum is exact."""

    fates: Mapping[AttemptKey, Fate]
    made_again: set[AttemptKey] = field(default_factory=set)
    """Attempts whose first Job was deleted without a trace while no operator watched: nobody can know of that
    try, so another one has its number."""

    @classmethod
    def of(cls, tasks: int, variants: Sequence[str], repetitions: int) -> "Script":
        """A tenth of the attempts, picked by a hash of their key, meet the troubles in turn."""
        names = [f"task-{number}" for number in range(tasks)]
        keys = [
            AttemptKey("ledger", *place) for place in itertools.product(names, variants, range(repetitions))
        ]
        unlucky = sorted(keys, key=_number)[: len(keys) // 10]
        fates = dict.fromkeys(keys, Fate.SOUND) | dict(zip(unlucky, itertools.cycle(TROUBLES), strict=False))
        return cls(fates)

    def end(self, key: AttemptKey, try_number: int) -> End:
        """How a try ends. One beyond the script ends well, and is found as one too many."""
        ends = self.ends(key)
        return ends[try_number - 1] if try_number <= len(ends) else GRADED

    def ends(self, key: AttemptKey) -> tuple[End, ...]:
        """The ends of the attempt's tries that can be known of."""
        ends = self.fates[key].ends
        return ends[1:] if key in self.made_again else ends

    def reward(self, key: AttemptKey) -> float:
        """Reward of the attempt's graded try."""
        return _number(key) % 5 / 4

    def tokens(self, key: AttemptKey, try_number: int) -> int:
        """Input tokens that a try used, where it left a manifest; a try that only judges uses none."""
        fate = self.fates[key]
        if fate is Fate.VERDICT_FAILS_ONCE and try_number > 1:
            return 0
        return 100 + _number(key) % 900 + try_number

    @property
    def tries(self) -> dict[tuple[AttemptKey, int], OutcomeClass]:
        """Every try that there must be, and its class."""
        return {
            (key, number): end.outcome for key in self.fates for number, end in enumerate(self.ends(key), 1)
        }

    @property
    def retained(self) -> dict[AttemptKey, int]:
        """Number of the try that is the result, of every attempt that has one."""
        return {key: len(self.ends(key)) for key, fate in self.fates.items() if fate.scored}

    def score(self, key: AttemptKey) -> Fraction:
        """What the attempt counts: 0 also where it has no result."""
        graded = self.fates[key].scored and self.fates[key].ends[-1].graded
        return Fraction(self.reward(key)) if graded else Fraction(0)

    def strict(self, variant: str) -> Fraction:
        """The strict score of a variant: mean over repetitions, then over tasks."""
        by_task: dict[str, list[Fraction]] = {}
        for key in self.fates:
            if key.variant == variant:
                by_task.setdefault(key.task, []).append(self.score(key))
        return sum((sum(one, Fraction()) / len(one) for one in by_task.values()), Fraction()) / len(by_task)

    @property
    def all_tokens(self) -> int:
        """Input tokens of all tries that left a manifest."""
        ends = ((key, number, end) for key in self.fates for number, end in enumerate(self.ends(key), 1))
        return sum(self.tokens(key, number) for key, number, end in ends if end.manifest)

    def describe(self) -> str:
        """One line for a timeline."""
        counts = Counter(fate.name.lower() for fate in self.fates.values())
        return ", ".join(f"{count} {name}" for name, count in counts.most_common())


def _number(key: AttemptKey) -> int:
    return int.from_bytes(hashlib.sha256(str(key).encode()).digest()[:6])
