"""A cluster and a store in memory, seen by the core through a watch that loses, repeats and delays events."""

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from assay.api.evaluation_run import Budget
from assay.api.outcome import OutcomeClass
from assay.core.actions import AskManifest, CreateJob, DeleteJob, WriteRecord
from assay.core.attempts import Invalid, Scored
from assay.core.classify import record_of_manifest
from assay.core.observation import ConditionView, JobView, Phase, PodView
from assay.core.plan import RunPlan
from assay.core.reconcile import Decision, Desired, Observed, reconcile
from assay.core.record import AttemptKey, ManifestAbsent, ManifestAnswer, ManifestFound, TryRecord
from assay.core.standing import Standing
from tests.operator_kit import builders as make

LEAVE_ARTIFACTS = (OutcomeClass.VERIFIER_CRASH, OutcomeClass.DISRUPTED)
"""How a try ends whose verifier had begun."""

Script = Mapping[tuple[AttemptKey, int], OutcomeClass]
"""How each try ends; those that are not named are graded with reward 1."""


@dataclass
class Truth:
    """What really is."""

    jobs: dict[str, JobView] = field(default_factory=dict)
    pods: dict[str, PodView] = field(default_factory=dict)
    manifests: dict[str, ManifestFound] = field(default_factory=dict)
    made: Counter[str] = field(default_factory=Counter)
    tries: dict[AttemptKey, list[OutcomeClass]] = field(default_factory=dict)
    agents: dict[AttemptKey, int] = field(default_factory=dict)
    """How many tries of an attempt ran an agent."""
    judged: dict[str, TryRecord] = field(default_factory=dict)
    """What tries without an agent judge, by Job name."""

    def live(self) -> list[JobView]:
        return [job for name, job in self.jobs.items() if name in self.pods and not self.pods[name].ended]


@dataclass
class World:
    """Truth, a view of it that may lag, and the operator's little memory."""

    plan: RunPlan
    script: Script
    parallelism: int
    random: random.Random
    loss: float = 0.3
    now: datetime = make.NOW
    truth: Truth = field(default_factory=Truth)
    jobs: dict[str, JobView] = field(default_factory=dict)
    pods: dict[str, dict[str, PodView]] = field(default_factory=dict)
    answers: dict[tuple[str, str], ManifestAnswer] = field(default_factory=dict)
    posted: dict[str, AttemptKey] = field(default_factory=dict)
    found: dict[str, ManifestFound] = field(default_factory=dict)
    asked: set[str] | None = None
    journal: dict[str, TryRecord] = field(default_factory=dict)
    written: dict[str, OutcomeClass] = field(default_factory=dict)
    """Classes of the records that were written on Jobs, by Job name."""
    suspend: bool = False
    stop: bool = False
    """Whether suspension ends live tries too."""
    budget: Budget | None = None
    standing: Standing = field(default_factory=Standing)

    def operator_pass(self, *, crash_after: int | None = None) -> Decision:
        """One pass; with `crash_after` the process dies after that many creations."""
        desired = Desired(
            make.RUN_UID, self.plan, self.parallelism, self.suspend, stop=self.stop, budget=self.budget
        )
        found = {
            name: record_of_manifest(found, self.plan.terms(AttemptKey.of(found.manifest.identity)))
            for name, found in self.found.items()
        }
        observed = Observed(
            jobs=dict(self.jobs),
            pods={name: tuple(pods.values()) for name, pods in self.pods.items()},
            answers=dict(self.answers),
            posted=dict(self.posted),
            found=found,
            asked=self.asked,
        )
        decision = reconcile(desired, self.journal, observed, self.now, self.standing)
        assert_same(decision, reconcile(desired, self.journal, observed, self.now))
        creations = 0
        for action in decision.actions:
            if isinstance(action, CreateJob):
                if crash_after is not None and creations >= crash_after:
                    self.restart()
                    return decision
                creations += 1
                self._create(action)
            elif isinstance(action, AskManifest):
                self._ask(action)
            elif isinstance(action, WriteRecord) and action.job.name in self.truth.jobs:
                if self.written.get(action.job.name) is action.record.outcome:
                    continue  # the watch does not show it yet
                self.written[action.job.name] = action.record.outcome
                job = self.truth.jobs[action.job.name]
                self._set_job(replace(job, record_json=action.record.to_json()))
                if action.end:
                    self._end(action.job.name)
            elif isinstance(action, DeleteJob):
                self._delete(action.job.name)
        if self.random.random() < 0.7:  # else the store is away, or the batch is not full
            self.journal |= {one.job_name: one for one in decision.unrecorded}
        return decision

    def restart(self) -> None:
        """The process starts anew: the journal, a full list, and no memory."""
        self.answers, self.posted, self.asked, self.written = {}, {}, set(), {}
        self.standing = Standing()
        self.relist()
        self.found = {}

    def relist(self) -> None:
        """The watch lists anew: everything is seen as it is."""
        vanished = [name for name in self.jobs if name not in self.truth.jobs]
        self.jobs = dict(self.truth.jobs)
        self.pods = {name: {pod.uid: pod} for name, pod in self.truth.pods.items()}
        vanished += [name for name in self.posted if name not in self.truth.jobs]
        self.posted = {}
        for name in vanished:
            if name in self.truth.manifests and name not in self.journal:
                self.found[name] = self.truth.manifests[name]

    def finish(self, name: str) -> None:
        """The try of that Job ends as the script says."""
        job = self.truth.jobs[name]
        key = AttemptKey.parse(job.attempt_key)
        # Tries that a person stopped have numbers too; the script knows nothing of them.
        number = len(self.truth.tries.get(key, ())) + 1
        outcome = self.script.get((key, number), OutcomeClass.GRADED)
        self.truth.tries.setdefault(key, []).append(outcome)
        reward = 1.0 if outcome is OutcomeClass.GRADED else None
        judged = self.truth.judged.get(name)
        self.truth.agents[key] = self.truth.agents.get(key, 0) + (judged is None)
        self.truth.manifests[name] = make.found(
            key,
            outcome,
            reward,
            try_number=job.try_number,
            artifacts=judged is None and outcome in LEAVE_ARTIFACTS,
            judged=judged,
            started_at=self.now - timedelta(seconds=2),
            finished_at=self.now - timedelta(seconds=1),
        )
        self.truth.pods[name] = make.ended_pod(job)
        self._see_pod(self.truth.pods[name])
        ended = ConditionView("Complete", "True", since=self.now)
        self._set_job(replace(job, finished=ended))

    def _end(self, name: str) -> None:
        """The Job controller stops the pod of a Job whose deadline is over: it leaves no result."""
        job = self.truth.jobs[name]
        if job.finished is None:
            stopped = make.ended("environment", 137, finished_at=self.now)
            self.truth.pods[name] = make.pod_view(job, make.ended("runner"), stopped, phase=Phase.FAILED)
            self._see_pod(self.truth.pods[name])
            ended = ConditionView("Failed", "True", "DeadlineExceeded", since=self.now)
            self._set_job(replace(job, finished=ended))

    def delete_ended(self, name: str) -> None:
        """A person deletes the Job of a try that has ended; the store keeps its manifest."""
        del self.truth.jobs[name], self.truth.pods[name]
        if self.random.random() >= self.loss:
            self.jobs.pop(name, None)
            self.pods.pop(name, None)
            self.answers = {key: one for key, one in self.answers.items() if key[0] != name}
            self.found[name] = self.truth.manifests[name]

    def tick(self, seconds: float = 10) -> None:
        self.now += timedelta(seconds=seconds)

    def _create(self, action: CreateJob) -> None:
        if action.name not in self.truth.jobs:  # else 409: it is ours already
            job = make.job_view(action.key, action.try_number)
            if action.judged is not None:
                job = replace(job, verifies=action.judged.try_number)
                self.truth.judged[action.name] = action.judged
            self.truth.made[action.name] += 1
            self.truth.pods[action.name] = make.pod_view(job, make.container("environment"))
            self._set_job(job)
            self._see_pod(self.truth.pods[action.name])
        if action.name not in self.jobs:
            self.posted[action.name] = action.key

    def _ask(self, action: AskManifest) -> None:
        answer = self.truth.manifests.get(action.name) or ManifestAbsent(self.now)
        if action.name in self.jobs:
            self.answers[action.name, action.pod_uid] = answer
        elif isinstance(answer, ManifestFound):
            self.found[action.name] = answer
        elif self.asked is not None:
            self.asked.add(action.name)

    def _delete(self, name: str) -> None:
        """A Job whose result is durable goes, and with it its pod."""
        assert name in self.journal
        if self.truth.jobs.pop(name, None):
            del self.truth.pods[name]
        if self.random.random() >= self.loss:
            self.jobs.pop(name, None)
            self.pods.pop(name, None)

    def _set_job(self, job: JobView) -> None:
        self.truth.jobs[job.name] = job
        if self.random.random() >= self.loss:
            self.jobs[job.name] = job
            self.posted.pop(job.name, None)

    def _see_pod(self, pod: PodView) -> None:
        if self.random.random() >= self.loss:
            self.pods.setdefault(pod.job_name, {})[pod.uid] = pod


def assert_same(decision: Decision, anew: Decision) -> None:
    """What is kept between passes saves time and changes nothing."""
    views = (dict(decision.states), dict(decision.records), decision.figures())
    assert views == (dict(anew.states), dict(anew.records), anew.figures())
    assert replace(decision, states={}, records={}) == replace(anew, states={}, records={})
    states, figures = list(decision.states.values()), decision.figures()
    scored = [state for state in states if isinstance(state, Scored)]
    assert decision.scored == len(scored) == sum(row.valid for row in figures.rows.values())
    assert decision.ended == len(scored) + sum(isinstance(state, Invalid) for state in states)
    assert figures.outcomes == Counter(record.outcome for record in decision.tries)
    rewards = sorted(one for row in figures.rows.values() for found in row.rewards.values() for one in found)
    assert rewards == sorted(state.score for state in scored)
