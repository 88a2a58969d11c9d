"""Where every attempt of a run stands by its recorded tries, kept up as tries are recorded.

A pass over a large run would spend most of its time on attempts of which nothing new is known. What is kept
here follows from the recorded tries alone: started anew at any time, it comes to the same.
"""

from collections import ChainMap
from collections.abc import Container, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import islice

from assay.api.evidence import PIN_EXTERNAL
from assay.api.outcome import OutcomeClass
from assay.core.attempts import AttemptState, Halts, Invalid, NextTry, Scored, attempt_state
from assay.core.circuit_breaker import earliest, first_telling
from assay.core.classified import Classified
from assay.core.outcomes import Disposition
from assay.core.plan import RunPlan
from assay.core.record import AttemptKey, TryRecord
from assay.core.verification import oracle_passes

Tries = tuple[TryRecord, ...]
"""Tries of one attempt by their numbers."""

_BEGIN = NextTry(1)
_OVER = (Scored, Invalid)


@dataclass(frozen=True, slots=True)
class Terms:
    """What the state of an attempt follows from beside its tries: see `attempts.attempt_state`."""

    plan: RunPlan
    resumed_at: datetime | None
    rounds: int

    def same_as(self, other: "Terms | None") -> bool:
        """Whether both give the same states. A plan is made once, so it is not compared by its contents."""
        return (
            other is not None
            and self.plan is other.plan
            and (self.resumed_at, self.rounds) == (other.resumed_at, other.rounds)
        )


@dataclass(frozen=True, slots=True)
class Outlook:
    """All attempts of a plan by the recorded tries and those that have just ended.

    Its mappings are views: read them before the next call of the `Standing` that made it.
    """

    plan: RunPlan
    tries: Mapping[AttemptKey, Tries]
    """Of attempts that have any."""
    states: Mapping[AttemptKey, AttemptState]
    """Of every planned attempt."""
    again: Mapping[AttemptKey, NextTry]
    """Attempts that have had a try and need another one."""
    halts: tuple[Halts, ...]
    first: tuple[TryRecord, ...]
    """The first telling tries: see `circuit_breaker.first_telling`."""
    limited: tuple[TryRecord, ...]
    """Tries that their provider limited."""
    gaps: tuple[AttemptKey, ...]
    """Attempts that lack a try before a recorded one."""
    ended: int
    scored: int
    pin_external: bool
    """Whether a try says that its runner's image has no pin of the ledger."""
    first_fresh: int
    """No attempt before this place of the plan is without a recorded try."""

    def fresh(self) -> Iterator[AttemptKey]:
        """Attempts without a try that has ended, in the plan's order."""
        attempts = self.plan.attempts
        return (
            attempts[place]
            for place in range(self.first_fresh, len(attempts))
            if attempts[place] not in self.tries
        )


class Standing:
    """The states of one run's attempts. Give it the same run's records, which only ever become more."""

    def __init__(self) -> None:
        self._terms: Terms | None = None
        self._taken = 0
        self.classified = Classified()
        """States of tries that are not recorded yet."""

    def planned(self, terms: Terms) -> Set[AttemptKey]:
        """The plan's attempts."""
        if not terms.same_as(self._terms):
            self._begin(terms)
        return self.states.keys()

    def outlook(self, terms: Terms, recorded: Mapping[str, TryRecord], ended: Iterable[TryRecord]) -> Outlook:
        """The attempts by the tries that are `recorded`, by Job name, and those that have `ended` since."""
        if not terms.same_as(self._terms) or len(recorded) < self._taken:
            self._begin(terms)
        self._take(recorded)
        return _View(self, terms, list(ended)).outlook()

    def _begin(self, terms: Terms) -> None:
        self._terms, self._taken = terms, 0
        self.classified = Classified()
        self.tries: dict[AttemptKey, Tries] = {}
        self.states: dict[AttemptKey, AttemptState] = dict.fromkeys(terms.plan.attempts, _BEGIN)
        self.again: dict[AttemptKey, NextTry] = {}
        self.halts: dict[AttemptKey, Halts] = {}
        self.gaps: dict[AttemptKey, None] = {}
        self.unjudged: dict[AttemptKey, None] = {}
        """Attempts whose last verdict failed: what they come to depends on the oracle's attempts, too."""
        self.told: dict[AttemptKey, TryRecord] = {}
        """The first telling tries, of few attempts."""
        self.limited: list[TryRecord] = []
        self.ended = self.scored = self.first_fresh = 0
        self.pin_external = False

    def _take(self, recorded: Mapping[str, TryRecord]) -> None:
        assert self._terms is not None
        if len(recorded) == self._taken:
            return
        changed: dict[AttemptKey, None] = {}
        for record in islice(recorded.values(), self._taken, None):
            if record.key in self.states:
                self.tries[record.key] = with_try(self.tries.get(record.key, ()), record)
                changed.pop(record.key, None)
                changed[record.key] = None  # in the order of the last record of each
                if is_limited(record):
                    self.limited.append(record)
                self.pin_external |= PIN_EXTERNAL in record.flags
        self._taken = len(recorded)
        for key in changed | self.unjudged:
            self._settle(self._terms, key, changed)
        self._tell(self._terms, changed)
        attempts = self._terms.plan.attempts
        while self.first_fresh < len(attempts) and attempts[self.first_fresh] in self.tries:
            self.first_fresh += 1

    def _settle(self, terms: Terms, key: AttemptKey, changed: Container[AttemptKey]) -> None:
        tries, before = self.tries[key], self.states[key]
        state = state_of(terms, key, tries, self.tries)
        if key not in changed and state == before:
            return
        self.states[key] = state
        self.ended += isinstance(state, _OVER) - isinstance(before, _OVER)
        self.scored += isinstance(state, Scored) - isinstance(before, Scored)
        for kept in (self.again, self.halts, self.gaps, self.unjudged):
            kept.pop(key, None)
        if isinstance(state, NextTry):
            self.again[key] = state
        elif isinstance(state, Halts):
            self.halts[key] = state
        if has_gap(tries):
            self.gaps[key] = None
        if tries[-1].rule.disposition is Disposition.REVERIFY:
            self.unjudged[key] = None

    def _tell(self, terms: Terms, changed: Iterable[AttemptKey]) -> None:
        told = self.telling(terms, {key: self.tries[key] for key in changed})
        self.told = {one.key: one for one in told}

    def telling(self, terms: Terms, changed: Mapping[AttemptKey, Tries]) -> tuple[TryRecord, ...]:
        """The first telling tries once attempts have `changed`, oldest first; at most FIRST_ATTEMPTS."""
        found = {key: first_telling(tries, terms.resumed_at) for key, tries in changed.items()}
        if any(self.told[key] != found[key] for key in found.keys() & self.told.keys()):
            # Another try of the attempt counts now: one that was not among the first may be, too.
            tries = ChainMap(dict(changed), self.tries).values()
            return earliest(first_telling(one, terms.resumed_at) for one in tries)
        return earliest((self.told | found).values())


class _View:
    """What is recorded, with the tries on top that have ended since."""

    def __init__(self, base: Standing, terms: Terms, ended: list[TryRecord]) -> None:
        self._base, self._terms, self._ended = base, terms, ended

    def outlook(self) -> Outlook:
        base, terms = self._base, self._terms
        over: dict[AttemptKey, Tries] = {}
        for record in self._ended:
            if record.key in base.states:
                before = over.get(record.key) or base.tries.get(record.key, ())
                over[record.key] = with_try(before, record)
        tries = ChainMap(over, base.tries)
        changed = over | {key: base.tries[key] for key in base.unjudged if over and key not in over}
        states = {key: state_of(terms, key, found, tries) for key, found in changed.items()}
        again = {key: state for key, state in base.again.items() if key not in states}
        again |= {key: state for key, state in states.items() if isinstance(state, NextTry)}
        halts = [state for key, state in base.halts.items() if key not in states]
        halts += [state for state in states.values() if isinstance(state, Halts)]
        gaps = [key for key in base.gaps if key not in over]
        gaps += [key for key, found in over.items() if has_gap(found)]
        return Outlook(
            plan=terms.plan,
            tries=tries,
            states=ChainMap(states, base.states),
            again=again,
            halts=tuple(halts),
            first=base.telling(terms, over),
            limited=(*base.limited, *filter(is_limited, self._ended)),
            gaps=tuple(gaps),
            ended=base.ended + sum(self._more(key, state, _OVER) for key, state in states.items()),
            scored=base.scored + sum(self._more(key, state, (Scored,)) for key, state in states.items()),
            pin_external=base.pin_external or any(PIN_EXTERNAL in one.flags for one in self._ended),
            first_fresh=base.first_fresh,
        )

    def _more(self, key: AttemptKey, state: AttemptState, kinds: tuple[type, ...]) -> int:
        return isinstance(state, kinds) - isinstance(self._base.states[key], kinds)


def state_of(
    terms: Terms, key: AttemptKey, tries: Tries, all_tries: Mapping[AttemptKey, Tries]
) -> AttemptState:
    """State of one attempt from its tries; `all_tries` tell whether the oracle passes its task."""
    plan = terms.plan
    return attempt_state(
        tries,
        plan.limits[key.ledger],
        terms.resumed_at,
        terms.rounds,
        partial(oracle_passes, plan, all_tries, key),
        rerun_after_output=plan.ledgers[key.ledger].header.plan.rate_limited_after_output == "rerun",
    )


def with_try(tries: Tries, record: TryRecord) -> Tries:
    """The tries with one more, by their numbers."""
    if not tries or tries[-1].try_number <= record.try_number:
        return (*tries, record)
    return tuple(sorted((*tries, record), key=lambda one: one.try_number))


def has_gap(tries: Tries) -> bool:
    """Whether a try before the last one is missing."""
    return len(tries) != tries[-1].try_number


def is_limited(record: TryRecord) -> bool:
    """Whether its provider limited the try."""
    return record.outcome is OutcomeClass.PROVIDER_RATE_LIMITED
