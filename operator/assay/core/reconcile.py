"""The centre of the operator: what is wanted, recorded and observed, to what is to be done. Pure.

The to-do set is always planned minus recorded minus live, computed from nothing but the arguments. So no
event that gets lost, arrives twice or arrives late changes the end state, and a restart needs no memory.
"""

from collections.abc import Callable, Container, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import chain, takewhile

from assay.api.evaluation_run import Budget
from assay.core.actions import Action, AskManifest, CreateJob, DeleteJob, WriteRecord
from assay.core.attempts import AttemptState, NextTry
from assay.core.brakes import Brakes, brakes
from assay.core.circuit_breaker import tells
from assay.core.classified import Classified, Facts
from assay.core.classify import (
    AskStorage,
    Ended,
    EndNow,
    Live,
    TryState,
    TryTerms,
    classify,
    stopped,
    stuck,
)
from assay.core.names import job_name
from assay.core.observation import JobEvent, JobView, PodView
from assay.core.plan import RunPlan
from assay.core.pod_causes import ENDING, Waiting, WaitingFor
from assay.core.rate_limits import ModelSlots
from assay.core.record import AttemptKey, ManifestAnswer, TryRecord
from assay.core.row_sums import FiguresSoFar
from assay.core.standing import Outlook, Standing, Terms


@dataclass(frozen=True, slots=True)
class Desired:
    """What the run's spec asks for. `hold` says why no Job may be made for now; live ones go on."""

    run_uid: str
    plan: RunPlan
    parallelism: int
    suspend: bool = False
    stop: bool = False
    """Whether suspension also ends the live tries."""
    hold: str = ""
    budget: Budget | None = None
    resumed_at: datetime | None = None
    """When a person last let the suspended run go on: see `attempts.attempt_state`."""
    rounds: int = 1
    """How often attempts without a score have their limits: once, and once more for each `spec.retry`."""


@dataclass(frozen=True, slots=True)
class Observed:
    """What the cluster and S3 say. Every mapping may lag or lack entries."""

    jobs: Mapping[str, JobView] = field(default_factory=dict)
    pods: Mapping[str, Sequence[PodView]] = field(default_factory=dict)
    """Pods by the name of their Job, those that are gone included while their Job is there."""
    events: Mapping[str, JobEvent] = field(default_factory=dict)
    answers: Mapping[tuple[str, str], ManifestAnswer] = field(default_factory=dict)
    """What S3 said, by (Job name, pod UID); the UID is empty where no pod is known."""
    posted: Mapping[str, AttemptKey] = field(default_factory=dict)
    """Jobs that were made and that no watch has shown yet: name and attempt."""
    found: Mapping[str, TryRecord] = field(default_factory=dict)
    """Tries of which S3 alone knows, by Job name: their Job is gone and the journal does not hold them."""
    asked: Set[str] | None = None
    """Names of Jobs that are not there and of which S3 has no result; None where no earlier process can have
    made any. Where it is not None, S3 is asked before a Job is made."""
    unsettled: frozenset[AttemptKey] = frozenset()
    """Attempts of which a Job vanished and S3 has not been asked since: it may hold their result."""
    conflicts: frozenset[str] = frozenset()
    """Names of Jobs that exist and belong to something else."""
    podless: Set[str] | None = None
    """Ended Jobs of which the API server itself said that they have no pod; None where the watch is believed.
    The watch of pods may be behind that of Jobs, and a Job does not tell how its pod ended."""


@dataclass(frozen=True, slots=True)
class LiveTry:
    """A live try and what it waits for; None while it works."""

    key: AttemptKey
    name: str
    waiting: WaitingFor | None


@dataclass(frozen=True, slots=True)
class Decision:
    """What is to be done, and what the status says."""

    actions: tuple[Action, ...]
    states: Mapping[AttemptKey, AttemptState]
    """State of every planned attempt from its recorded tries, live or not."""
    live: tuple[LiveTry, ...]
    settling: frozenset[AttemptKey]
    """Attempts whose last try has ended while S3 has not said yet what came of it."""
    records: Mapping[AttemptKey, Sequence[TryRecord]]
    """Every recorded try, by attempt."""
    ended: int
    """Attempts that have ended, with a result or without."""
    scored: int
    """Attempts that have a result."""
    pin_external: bool
    """Whether a try says that its runner's image has no pin of the ledger."""
    figures: Callable[[], FiguresSoFar] = field(compare=False)
    """Works out what the status shows of all tries that have ended."""
    brakes: Brakes
    """Why no further try is made."""
    wake_at: datetime | None
    """When time alone changes the decision; None if it does not."""
    conflicts: frozenset[str] = frozenset()
    unrecorded: tuple[TryRecord, ...] = ()
    """Tries that have ended and that the journal does not hold yet."""
    leftovers: int = 0
    """Jobs that are still there although their result is durable."""

    @property
    def tries(self) -> tuple[TryRecord, ...]:
        """Every recorded try."""
        return tuple(record for records in self.records.values() for record in records)

    @property
    def finished(self) -> bool:
        """Whether every attempt has ended, every try is in the journal, and no Job is left."""
        over = self.ended == len(self.states)
        return over and not (self.live or self.settling or self.unrecorded or self.leftovers)


def reconcile(
    desired: Desired,
    recorded: Mapping[str, TryRecord],
    observed: Observed,
    now: datetime,
    standing: Standing | None = None,
) -> Decision:
    """Decide. `recorded` are the tries that the journal holds, by Job name; `now` is aware and in UTC.

    `standing` is of the run's earlier passes, if there were any: it saves time and changes nothing. With it,
    read the decision's mappings before the next pass.
    """
    terms = Terms(desired.plan, desired.resumed_at, desired.rounds)
    standing = standing or Standing()
    planned = standing.planned(terms)
    tries = Tries(desired.run_uid, desired.plan.terms, desired.stop, recorded, observed, planned)
    tries.classify_all(now, standing.classified)
    outlook = standing.outlook(terms, recorded, tries.unrecorded)
    tries.ask_for_gaps(outlook)
    brake = brakes(outlook, desired.budget, tries.busy)
    creations: list[CreateJob | AskManifest] = []
    if not (desired.suspend or desired.hold or brake.on):
        creations = _dispatch(desired, observed, tries, outlook, brake, now)
    return Decision(
        actions=(*tries.actions, *creations),
        states=outlook.states,
        live=tuple(tries.live),
        settling=frozenset(tries.settling),
        records=outlook.tries,
        ended=outlook.ended,
        scored=outlook.scored,
        pin_external=outlook.pin_external,
        figures=outlook.figures,
        brakes=brake,
        wake_at=min(tries.wakes, default=None),
        conflicts=observed.conflicts,
        unrecorded=tuple(tries.unrecorded),
        leftovers=tries.leftovers,
    )


class Tries:
    """The tries of one pass that the journal does not hold, sorted into live, settling and ended."""

    def __init__(
        self,
        run_uid: str,
        terms: Callable[[AttemptKey], TryTerms],
        stop: bool,
        recorded: Mapping[str, TryRecord],
        observed: Observed,
        planned: Container[AttemptKey],
    ) -> None:
        self._run_uid, self._terms, self._stop = run_uid, terms, stop
        self._observed, self._recorded, self._planned = observed, recorded, planned
        self.live: list[LiveTry] = []
        self.settling: set[AttemptKey] = set(observed.unsettled)
        self.unrecorded: list[TryRecord] = []
        self.leftovers = 0
        self.actions: list[Action] = []
        self.wakes: list[datetime] = []

    @property
    def busy(self) -> set[AttemptKey]:
        """Attempts that must not get another try now."""
        return self.settling | {one.key for one in self.live}

    def classify_all(self, now: datetime, classified: Classified | None = None) -> None:
        """Sort them; what is `classified` already is not looked at again."""
        known = classified or Classified()
        known.forget(self._observed.jobs)
        for name, record in self._observed.found.items():
            if name not in self._recorded and name not in self._observed.jobs and record.key in self._planned:
                self._ended(record, now)
        for job in self._observed.jobs.values():
            if job.name in self._recorded and job.owner_uid == self._run_uid:
                # How a try ended is decided once: whatever its Job shows now, the journal says it.
                self.leftovers += 1
                self.actions.append(DeleteJob(job))
            else:
                self._classify(job, known, now)
        self._orphans(now)

    def _classify(self, job: JobView, known: Classified, now: datetime) -> None:
        if job.owner_uid != self._run_uid:
            return
        key = _key(job.attempt_key, self._planned)
        if key is None:
            return
        pod = pod_that_counts(self._observed.pods.get(job.name, ()))
        if pod is None and job.finished and not self._is_podless(job.name):
            self.live.append(LiveTry(key, job.name, WaitingFor(Waiting.ENDING, "its pod is not known yet")))
            return
        answer = self._observed.answers.get((job.name, pod.uid if pod else ""))
        facts = Facts(job, pod, answer, self._observed.events.get(job.name))
        state = known.find(facts, now)
        if state is None:
            state = classify(job, pod, answer, facts.event, self._terms(key), now)
            known.keep(facts, state)
        self._sort(job, key, pod, state, now)

    def _is_podless(self, job_name: str) -> bool:
        return self._observed.podless is None or job_name in self._observed.podless

    def _sort(
        self, job: JobView, key: AttemptKey, pod: PodView | None, state: TryState, now: datetime
    ) -> None:
        if isinstance(state, Live):
            self._live(job, key, pod, state, now)
            self._wake(state.deadline)
        elif isinstance(state, AskStorage):
            self.settling.add(key)
            self._wake(state.not_before)
            if state.not_before is None or state.not_before <= now:
                self.actions.append(AskManifest(key, job.try_number, job.name, pod.uid if pod else ""))
        elif isinstance(state, EndNow):
            self.live.append(LiveTry(key, job.name, WaitingFor(Waiting.ENDING, state.record.reason)))
            self.actions.append(WriteRecord(job, state.record, end=True))
        elif isinstance(state, Ended):
            self._ended(state.record, now)
            if not state.durable:
                self.actions.append(WriteRecord(job, state.record))

    def _ended(self, record: TryRecord, now: datetime) -> None:
        # A node whose clock is ahead must not put off what follows from the end.
        self.unrecorded.append(replace(record, ended_at=now) if record.ended_at > now else record)

    def _live(self, job: JobView, key: AttemptKey, pod: PodView | None, state: Live, now: datetime) -> None:
        waiting = state.waiting
        if self._stop and (waiting is None or waiting.reason not in ENDING):
            if job.suspended:
                self.actions.append(DeleteJob(job))
            else:
                self.actions.append(WriteRecord(job, stopped(job, pod, now), end=True))
            waiting = WaitingFor(Waiting.ENDING, "the run is stopped")
        self.live.append(LiveTry(key, job.name, waiting))

    def ask_for_gaps(self, outlook: Outlook) -> None:
        """An earlier process may have seen a try, and made the next one, without recording either."""
        asked = self._observed.asked
        if asked is None:
            return
        for key in outlook.gaps:
            records = outlook.tries[key]
            known = {record.try_number for record in records}
            for number in range(1, records[-1].try_number):
                name = name_of(self._run_uid, key, number)
                if number not in known and name not in asked and name not in self._observed.jobs:
                    self.settling.add(key)
                    self.actions.append(AskManifest(key, number, name, ""))

    def _orphans(self, now: datetime) -> None:
        """Jobs that no watch has shown yet, and pods that outlive their Job, keep their attempt busy."""
        names = {one.name for one in self.live}
        for name, key in self._observed.posted.items():
            if name not in self._observed.jobs:
                self.live.append(LiveTry(key, name, WaitingFor(Waiting.NO_POD)))
                names.add(name)
        for name, pods in self._observed.pods.items():
            pod = pod_that_counts(pods)
            if name in self._observed.jobs or name in names or pod is None or pod.ended:
                continue
            owner = _key(pod.attempt_key, self._planned)
            if owner is not None:
                ending = WaitingFor(Waiting.ENDING, "its Job was deleted")
                self.live.append(LiveTry(owner, name, stuck(pod, now) or ending))

    def _wake(self, when: datetime | None) -> None:
        if when is not None:
            self.wakes.append(when)


def _dispatch(
    desired: Desired,
    observed: Observed,
    tries: Tries,
    outlook: Outlook,
    brake: Brakes,
    now: datetime,
) -> list[CreateJob | AskManifest]:
    """Creations up to `parallelism`: second tries before first ones, so that attempts finish.

    The other way round as long as nothing says that the run works: see `circuit_breaker`.
    """
    free, fresh = desired.parallelism - len(tries.live), brake.fresh
    slots = ModelSlots.of(
        desired.plan,
        desired.parallelism,
        outlook.limited,
        (one.key.variant for one in tries.live),
        now,
    )
    creations: list[CreateJob | AskManifest] = []
    busy = tries.busy
    again = ((key, step) for key, step in outlook.again.items() if key not in busy)
    first: Iterator[tuple[AttemptKey, NextTry]] = (
        (key, NextTry(1)) for key in outlook.fresh() if key not in busy
    )
    # A large run has many attempts that have not begun: only as many are looked at as may begin.
    first = takewhile(lambda _: len(creations) < free and fresh != 0, first)
    for key, step in chain(first, again) if brake.proving else chain(again, first):
        begins = step.number == 1
        if step.not_before is not None and step.not_before > now:
            tries.wakes.append(step.not_before)
            continue
        name = name_of(desired.run_uid, key, step.number)
        if len(creations) >= free or name in observed.conflicts:
            continue
        if brake.proving and not begins and (tries.live or creations) and tells(outlook.tries[key][-1]):
            continue  # the others may say the same: no attempt spends its limit on a fault of the run
        if not slots.take(key.variant):
            continue
        if begins and fresh is not None:
            fresh -= 1
        known = observed.asked is None or name in observed.asked
        creations.append(
            CreateJob(key, step.number, name, step.judged)
            if known
            else AskManifest(key, step.number, name, "")
        )
    if slots.more_at is not None:
        tries.wakes.append(slots.more_at)
    return creations


def name_of(run_uid: str, key: AttemptKey, try_number: int) -> str:
    """Name of the Job of a try."""
    return job_name(run_uid, key.ledger, key.task, key.variant, key.repetition, try_number)


def pod_that_counts(pods: Sequence[PodView]) -> PodView | None:
    """Of several pods of a Job the one made last, since a Job that Kueue took back gets a new one.

    One that still works comes before all that have ended: where the API server died under the Job controller,
    this may have made a pod too many and have removed it again.
    """
    if len(pods) == 1:
        return pods[0]
    return max(pods, key=_rank, default=None)


def _rank(pod: PodView) -> tuple[bool, datetime, bool, str]:
    return not (pod.ended or pod.deleting), pod.created_at, not pod.gone, pod.uid


def _key(text: str, planned: Container[AttemptKey]) -> AttemptKey | None:
    try:
        key = AttemptKey.parse(text)
    except ValueError:
        return None
    return key if key in planned else None
