"""Where every attempt of a run stands by its recorded tries, kept up as tries are recorded.

A pass over a large run would spend most of its time on attempts of which nothing new is known. What is kept
here follows from the recorded tries alone: started anew at any time, it comes to the same.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

from assay.api.evaluation_run_status import MAX_FAILURES
from assay.api.evidence import PIN_EXTERNAL
from assay.api.outcome import OutcomeClass
from assay.core.attempts import AttemptState, Halts, Invalid, NextTry, Scored, attempt_state
from assay.core.budget import Spent
from assay.core.circuit_breaker import earliest, first_telling
from assay.core.classified import Classified
from assay.core.outcomes import Disposition
from assay.core.packed_tries import tries_since
from assay.core.plan import RunPlan
from assay.core.record import AttemptKey, TryRecord
from assay.core.row_sums import FiguresSoFar, Row, RowSums, newest_failed
from assay.core.verification import oracle_passes

Tries = tuple[TryRecord, ...]
"""Tries of one attempt by their numbers."""

TAKEN_AT_ONCE = 500
"""Attempts."""
_BEGIN = NextTry(1)


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
    tried: int
    """How many attempts have had a try that has ended."""
    ended: int
    scored: int
    spent: Spent
    pin_external: bool
    """Whether a try says that its runner's image has no pin of the ledger."""
    figures: Callable[[], FiguresSoFar] = field(compare=False)
    """Works out what the status shows of the tries."""
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
    """The states of one run's attempts. Give it the same run's records, which only ever become more.

    Of an attempt that has ended it keeps no more than the names of its Jobs: what it came to is worked out
    when somebody asks.
    """

    def __init__(self) -> None:
        self._terms: Terms | None = None
        self._taken = 0
        self.classified = Classified()
        """States of tries that are not recorded yet."""

    def planned(self, terms: Terms) -> Set[AttemptKey]:
        """The plan's attempts."""
        if not terms.same_as(self._terms):
            self._begin(terms)
        return self.names.keys()

    def outlook(self, terms: Terms, recorded: Mapping[str, TryRecord], ended: Iterable[TryRecord]) -> Outlook:
        """The attempts by the tries that are `recorded`, by Job name, and those that have `ended` since."""
        if not terms.same_as(self._terms) or len(recorded) < self._taken:
            self._begin(terms)
        self._take(terms, recorded)
        return self._with(terms, recorded, [record for record in ended if record.key in self.names])

    def _begin(self, terms: Terms) -> None:
        self._terms, self._taken = terms, 0
        self.classified = Classified()
        self.names: dict[AttemptKey, str] = dict.fromkeys(terms.plan.attempts, "")
        """Names of the Jobs of the recorded tries, in their order, with spaces between; of every attempt."""
        self.open: dict[AttemptKey, NextTry | Halts] = {}
        """States of the attempts that have had a try and have not ended."""
        self.invalid: set[AttemptKey] = set()
        self.gaps: dict[AttemptKey, None] = {}
        self.unjudged: dict[AttemptKey, AttemptState] = {}
        """Attempts whose last verdict failed: what they come to depends on the oracle's attempts, too."""
        self.told: dict[AttemptKey, TryRecord] = {}
        """The first telling tries, of few attempts."""
        self.limited: list[TryRecord] = []
        self.spent = Spent()
        self.rows = _rows(terms.plan)
        self.failed: tuple[TryRecord, ...] = ()
        """The newest tries that are no result."""
        self.tried = self.first_fresh = 0
        self.pin_external = False

    def _take(self, terms: Terms, recorded: Mapping[str, TryRecord]) -> None:
        if len(recorded) == self._taken:
            return
        view, changed = _TriesView(self.names, recorded, {}), dict[AttemptKey, Tries]()
        for record in tries_since(recorded, self._taken):
            # Of what is read at a start no more than a part is unpacked at once.
            if len(changed) >= TAKEN_AT_ONCE:
                self._take_in(terms, changed, view)
                changed = {}
            if record.key in self.names:
                tries = with_try(changed.pop(record.key, ()) or view.get(record.key, ()), record)
                changed[record.key] = tries  # in the order of the last record of each
                self._count(terms, record)
        self._taken = len(recorded)
        self._take_in(terms, changed, view)
        attempts = terms.plan.attempts
        while self.first_fresh < len(attempts) and self.names[attempts[self.first_fresh]]:
            self.first_fresh += 1

    def _take_in(self, terms: Terms, changed: Mapping[AttemptKey, Tries], view: "_TriesView") -> None:
        """Attempts that have further tries: `changed` has all their tries, `view` those of every attempt."""
        had_result = {key for key in changed if self._is_scored(key)}
        for key, tries in changed.items():
            self.tried += not self.names[key]
            self.names[key] = " ".join(one.job_name for one in tries) if len(tries) > 1 else tries[0].job_name
        summed = not had_result
        for key in {**changed, **self.unjudged}:
            tries, before = changed.get(key) or view[key], self.unjudged.get(key)
            state = self._settle(terms, key, tries, view)
            if isinstance(before, Scored) and state != before:
                summed = False
            elif isinstance(state, Scored) and not isinstance(before, Scored):
                self.rows[key.ledger, key.variant].retain(state.retained, state.score)
        if not summed:
            self._sum_up(terms, view)
        self.told = {one.key: one for one in self._telling(terms, changed, view)}

    def _is_scored(self, key: AttemptKey) -> bool:
        return bool(self.names[key]) and key not in self.open and key not in self.invalid

    def _sum_up(self, terms: Terms, view: "_TriesView") -> None:
        """Anew, for a result was replaced by another one."""
        self.rows = _rows(terms.plan)
        for key, tries in view.items():
            row, state = self.rows[key.ledger, key.variant], state_of(terms, key, tries, view)
            row.outcomes.update(one.outcome for one in tries)
            if isinstance(state, Scored):
                row.retain(state.retained, state.score)

    def _count(self, terms: Terms, record: TryRecord) -> None:
        self.rows[record.key.ledger, record.key.variant].outcomes[record.outcome] += 1
        if not record.rule.retained:
            self.failed = newest_failed((*self.failed, record), MAX_FAILURES)
        if is_limited(record):
            self.limited.append(record)
        self.pin_external |= PIN_EXTERNAL in record.flags
        self.spent.add(terms.plan, record)

    def _settle(self, terms: Terms, key: AttemptKey, tries: Tries, view: "_TriesView") -> AttemptState:
        state = state_of(terms, key, tries, view)
        if isinstance(state, NextTry | Halts):
            if self.open.get(key) != state:
                self.open.pop(key, None)
                self.open[key] = state
        else:
            self.open.pop(key, None)
        self.invalid.discard(key)
        if isinstance(state, Invalid):
            self.invalid.add(key)
        self.gaps.pop(key, None)
        if has_gap(tries):
            self.gaps[key] = None
        self.unjudged.pop(key, None)
        if tries[-1].rule.disposition is Disposition.REVERIFY:
            self.unjudged[key] = state
        return state

    def _telling(
        self, terms: Terms, changed: Mapping[AttemptKey, Tries], view: Mapping[AttemptKey, Tries]
    ) -> tuple[TryRecord, ...]:
        """The first telling tries once attempts have `changed`, oldest first; `view` has all tries."""
        found = {key: first_telling(tries, terms.resumed_at) for key, tries in changed.items()}
        if any(self.told[key] != found[key] for key in found.keys() & self.told.keys()):
            # Another try of the attempt counts now: one that was not among the first may be, too.
            return earliest(first_telling(one, terms.resumed_at) for one in view.values())
        return earliest((self.told | found).values())

    def _with(self, terms: Terms, recorded: Mapping[str, TryRecord], ended: list[TryRecord]) -> Outlook:
        base, over = _TriesView(self.names, recorded, {}), dict[AttemptKey, Tries]()
        for record in ended:
            over[record.key] = with_try(over.get(record.key) or base.get(record.key, ()), record)
        tries = _TriesView(self.names, recorded, over)
        changed = over | {key: base[key] for key in self.unjudged if over and key not in over}
        states = {key: state_of(terms, key, found, tries) for key, found in changed.items()}
        still_open = {key: state for key, state in self.open.items() if key not in states}
        still_open |= {key: state for key, state in states.items() if isinstance(state, NextTry | Halts)}
        invalid = sum(isinstance(state, Invalid) for state in states.values())
        invalid += len(self.invalid) - sum(key in self.invalid for key in states)
        tried = self.tried + sum(not self.names[key] for key in over)
        return Outlook(
            plan=terms.plan,
            tries=tries,
            states=_StatesView(self.names, still_open, states, tries, terms),
            again={key: state for key, state in still_open.items() if isinstance(state, NextTry)},
            halts=tuple(state for state in still_open.values() if isinstance(state, Halts)),
            first=self._telling(terms, over, tries),
            limited=(*self.limited, *filter(is_limited, ended)),
            gaps=tuple(
                [key for key in self.gaps if key not in over]
                + [key for key, found in over.items() if has_gap(found)]
            ),
            tried=tried,
            ended=tried - len(still_open),
            scored=tried - len(still_open) - invalid,
            spent=self.spent.with_tries(terms.plan, ended),
            pin_external=self.pin_external or any(PIN_EXTERNAL in one.flags for one in ended),
            figures=partial(self._figures, ended, states),
            first_fresh=self.first_fresh,
        )

    def _figures(self, ended: Sequence[TryRecord], states: Mapping[AttemptKey, AttemptState]) -> FiguresSoFar:
        rows = {row: sums.copy() for row, sums in self.rows.items()}
        for record in ended:
            rows[record.key.ledger, record.key.variant].outcomes[record.outcome] += 1
        for key, state in states.items():
            if isinstance(state, Scored) and not self._is_scored(key):
                rows[key.ledger, key.variant].retain(state.retained, state.score)
        return FiguresSoFar(rows, newest_failed((*self.failed, *ended), MAX_FAILURES))


class _TriesView(Mapping[AttemptKey, Tries]):
    """Tries of the attempts that have any: of those in `over` from there, else the recorded ones."""

    def __init__(
        self,
        names: Mapping[AttemptKey, str],
        recorded: Mapping[str, TryRecord],
        over: Mapping[AttemptKey, Tries],
    ) -> None:
        self._names, self._recorded, self._over = names, recorded, over

    def __getitem__(self, key: AttemptKey) -> Tries:
        if key in self._over:
            return self._over[key]
        if not self._names[key]:
            raise KeyError(key)
        return tuple(self._recorded[name] for name in self._names[key].split())

    def __contains__(self, key: object) -> bool:
        return key in self._over or bool(isinstance(key, AttemptKey) and self._names.get(key))

    def __iter__(self) -> Iterator[AttemptKey]:
        return (key for key, names in self._names.items() if names or key in self._over)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class _StatesView(Mapping[AttemptKey, AttemptState]):
    """States of every planned attempt; that of one that has ended is worked out when it is asked for."""

    def __init__(
        self,
        names: Mapping[AttemptKey, str],
        still_open: Mapping[AttemptKey, AttemptState],
        known: Mapping[AttemptKey, AttemptState],
        tries: _TriesView,
        terms: Terms,
    ) -> None:
        self._names, self._open, self._known = names, still_open, known
        self._tries, self._terms = tries, terms

    def __getitem__(self, key: AttemptKey) -> AttemptState:
        state = self._known.get(key) or self._open.get(key)
        if state is not None:
            return state
        if not self._names[key]:
            return _BEGIN
        return state_of(self._terms, key, self._tries[key], self._tries)

    def __iter__(self) -> Iterator[AttemptKey]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _rows(plan: RunPlan) -> dict[Row, RowSums]:
    return {(ledger, variant): RowSums() for ledger in plan.ledgers for variant in plan.variants}


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
