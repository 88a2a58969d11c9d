"""States of tries from earlier passes, for as long as what they follow from is the very same."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from assay.core.classify import Ended, Live, TryState
from assay.core.observation import JobEvent, JobView, PodView
from assay.core.record import ManifestAnswer


@dataclass(frozen=True, slots=True)
class Facts:
    """What the state of a try follows from, beside the time. What changes is another object."""

    job: JobView
    pod: PodView | None
    answer: ManifestAnswer | None
    event: JobEvent | None

    def same_as(self, other: "Facts") -> bool:
        """Whether these are the very same objects."""
        return (
            self.job is other.job
            and self.pod is other.pod
            and self.answer is other.answer
            and self.event is other.event
        )


class Classified:
    """States by Job name. Those that depend on the time are not kept, but for a deadline that lies ahead."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Facts, TryState]] = {}

    def find(self, facts: Facts, now: datetime) -> TryState | None:
        """The state, if it is still known."""
        found = self._known.get(facts.job.name)
        if found is None or not found[0].same_as(facts):
            return None
        state = found[1]
        past = isinstance(state, Live) and state.deadline is not None and now >= state.deadline
        return None if past else state

    def keep(self, facts: Facts, state: TryState) -> None:
        """Remember a state."""
        if isinstance(state, Live | Ended):
            self._known[facts.job.name] = facts, state
        else:
            self._known.pop(facts.job.name, None)

    def forget(self, there: Mapping[str, JobView]) -> None:
        """Drop what is known of Jobs that are not there any more."""
        for name in self._known.keys() - there.keys():
            del self._known[name]
