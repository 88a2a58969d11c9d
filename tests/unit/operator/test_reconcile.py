"""Exactly the planned set: no doubles, no holes, whatever is lost, repeated or restarted (BAR 2 and 3)."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.api.evaluation_run import Budget
from assay.api.evidence import TokenCounts
from assay.api.ledgerfile import Plan, RetryLimits
from assay.api.outcome import OutcomeClass
from assay.core.actions import AskManifest, CreateJob, DeleteJob, WriteRecord
from assay.core.attempts import Invalid, NextTry, Scored
from assay.core.observation import ConditionView, PodView
from assay.core.plan import RunPlan, make_plan
from assay.core.pod_causes import Waiting
from assay.core.reconcile import Decision, Desired, Observed, reconcile
from assay.core.record import AttemptKey, ManifestAbsent
from tests.operator_kit import builders as make
from tests.unit.operator.simulation import LEAVE_ARTIFACTS, World

PLAN = make.plan_of(tasks=3)
FIRST, SECOND, THIRD = PLAN.attempts


def limited(tasks: int = 1, **limits: int) -> RunPlan:
    """A plan with those retry limits."""
    lines = [make.task(f"task-{number}") for number in range(tasks)]
    plan = Plan(retry_limits=RetryLimits(**limits))
    ledger = make.run_ledger(tasks=lines, plan=plan)
    return make_plan(make.run_object().spec, make.RUN_UID, [ledger], [make.run_variant()])


def decide(observed: Observed, plan: RunPlan = PLAN, **desired: object) -> Decision:
    wanted = replace(Desired(make.RUN_UID, plan, 10), **desired)  # type: ignore[arg-type]
    return reconcile(wanted, {}, observed, make.later(3600))


def at_rest(observed: Observed, plan: RunPlan = PLAN, **desired: object) -> Decision:
    """What follows once the journal holds every try and its Jobs are gone."""
    durable = {one.job_name: one for one in decide(observed, plan, **desired).unrecorded}
    wanted = replace(Desired(make.RUN_UID, plan, 10), **desired)  # type: ignore[arg-type]
    return reconcile(wanted, durable, Observed(), make.later(3600))


def created(decision: Decision) -> list[tuple[AttemptKey, int]]:
    return [(one.key, one.try_number) for one in decision.actions if isinstance(one, CreateJob)]


@dataclass
class History:
    """Tries that have ended in given classes, each with its Job and manifest."""

    observed: Observed = field(default_factory=Observed)

    def add(self, key: AttemptKey, *outcomes: OutcomeClass, **result: Any) -> "History":
        jobs, pods = dict(self.observed.jobs), dict(self.observed.pods)
        answers = dict(self.observed.answers)
        for number, outcome in enumerate(outcomes, 1):
            job = make.job_view(key, number)
            pod = make.ended_pod(job)
            reward = 1.0 if outcome is OutcomeClass.GRADED else None
            jobs[job.name], pods[job.name] = job, (pod,)
            answers[job.name, pod.uid] = make.found(key, outcome, reward, try_number=number, **result)
        self.observed = replace(self.observed, jobs=jobs, pods=pods, answers=answers)
        return self


def live(key: AttemptKey, number: int = 1) -> Observed:
    job = make.job_view(key, number)
    pod = make.pod_view(job, make.container("environment"))
    return Observed(jobs={job.name: job}, pods={job.name: (pod,)})


GRADED, OOM = OutcomeClass.GRADED, OutcomeClass.AGENT_OOM
INFRA, DISRUPTED = OutcomeClass.INFRA_START, OutcomeClass.DISRUPTED
REFUSED, CRASH = OutcomeClass.REFUSED_BLOCKED, OutcomeClass.VERIFIER_CRASH


def test_no_try_ends_in_the_future_whatever_its_nodes_clock_says() -> None:
    key, tomorrow = AttemptKey("ledger", "task-0", "oracle", 0), make.later(86_400)
    late = History().add(key, OutcomeClass.PROVIDER_RATE_LIMITED, finished_at=tomorrow, started_at=tomorrow)
    (record,) = decide(late.observed).unrecorded
    assert record.ended_at == make.later(3600), "when it was noticed: the wait for the next try begins here"


class TestHistories:
    """What follows after the recorded tries of one attempt."""

    @pytest.mark.parametrize(
        ("outcomes", "limits", "number"),
        [
            ([], {}, 1),
            ([INFRA], {"infrastructure": 1}, 2),
            ([INFRA, OutcomeClass.RESULT_MISSING], {"infrastructure": 2}, 3),
            ([DISRUPTED, DISRUPTED, INFRA], {"infrastructure": 1, "disruption": 2}, 4),
            ([REFUSED], {"refusal": 1}, 2),
            ([OutcomeClass.UNRECOGNISED], {"infrastructure": 1}, 2),
        ],
    )
    def test_a_further_try(
        self, outcomes: Sequence[OutcomeClass], limits: dict[str, int], number: int
    ) -> None:
        plan = limited(**limits)
        (key,) = plan.attempts
        decision = decide(History().add(key, *outcomes).observed, plan)
        assert created(decision) == [(key, number)]
        assert isinstance(decision.states[key], NextTry)

    @pytest.mark.parametrize(
        ("outcomes", "limits"),
        [
            ([INFRA], {"infrastructure": 0}),
            ([INFRA, INFRA, INFRA], {"infrastructure": 2}),
            ([DISRUPTED] * 3, {"disruption": 2}),
            ([CRASH], {}),
        ],
    )
    def test_an_end_without_a_result(self, outcomes: Sequence[OutcomeClass], limits: dict[str, int]) -> None:
        plan = limited(**limits)
        (key,) = plan.attempts
        decision = at_rest(History().add(key, *outcomes).observed, plan)
        assert created(decision) == []
        assert isinstance(decision.states[key], Invalid)
        assert decision.finished

    @pytest.mark.parametrize(
        ("outcomes", "score"), [([GRADED], 1.0), ([INFRA, GRADED], 1.0), ([OOM], 0.0), ([REFUSED] * 11, 0.0)]
    )
    def test_a_result(self, outcomes: Sequence[OutcomeClass], score: float) -> None:
        plan = limited()
        (key,) = plan.attempts
        decision = at_rest(History().add(key, *outcomes).observed, plan)
        state = decision.states[key]
        assert isinstance(state, Scored)
        assert (state.score, state.retained.try_number) == (score, len(outcomes))
        assert len(decision.tries) == len(outcomes), "replaced tries stay on record"
        assert decision.finished

    @pytest.mark.parametrize(
        "outcome",
        [
            OutcomeClass.ISOLATION_ABSENT,
            OutcomeClass.PROVIDER_AUTH,
            OutcomeClass.PROVIDER_FUNDS,
            OutcomeClass.LEDGER_MISMATCH,
        ],
    )
    def test_a_stop_of_the_whole_run(self, outcome: OutcomeClass) -> None:
        observed = History().add(FIRST, outcome).observed
        decision = decide(observed)
        assert created(decision) == []
        assert decision.brakes.halt is not None
        assert not decision.finished
        resumed = decide(observed, resumed_at=make.later(100))
        assert set(created(resumed)) == {(FIRST, 2), (SECOND, 1), (THIRD, 1)}

    def test_asking_once_more_gives_the_limits_anew_to_what_has_no_score(self) -> None:
        plan = limited(2, infrastructure=1)
        lost, scored = plan.attempts
        history = History().add(lost, INFRA, INFRA).add(scored, OOM)
        assert at_rest(history.observed, plan).finished
        again = decide(history.observed, plan, rounds=2)
        assert created(again) == [(lost, 3)]
        history.add(lost, INFRA, INFRA, INFRA, INFRA).add(scored, *[REFUSED] * 11)
        assert at_rest(history.observed, plan, rounds=2).finished

    def test_a_provider_that_limits_the_rate_is_given_time(self) -> None:
        plan = limited()
        (key,) = plan.attempts
        limited_before_output = {"tokens": TokenCounts(input=100, output=0)}
        history = History().add(key, OutcomeClass.PROVIDER_RATE_LIMITED, **limited_before_output)
        observed = history.observed
        desired = Desired(make.RUN_UID, plan, 10)
        early = reconcile(desired, {}, observed, make.later(63))
        assert (created(early), early.wake_at) == ([], make.later(62 + 60))
        assert created(reconcile(desired, {}, observed, make.later(122))) == [(key, 2)]


class TestJournal:
    """A Job goes when its result is durable, and not before; the journal's word is final."""

    def test_a_result_that_is_not_durable_keeps_its_job(self) -> None:
        decision = decide(History().add(FIRST, GRADED).observed)
        assert [one.key for one in decision.unrecorded] == [FIRST]
        assert not [one for one in decision.actions if isinstance(one, DeleteJob)]

    def test_a_durable_result_frees_its_job(self) -> None:
        observed = History().add(FIRST, GRADED).observed
        durable = {one.job_name: one for one in decide(observed).unrecorded}
        decision = reconcile(Desired(make.RUN_UID, PLAN, 10), durable, observed, make.later(3600))
        assert [one.job.name for one in decision.actions if isinstance(one, DeleteJob)] == [*durable]
        assert decision.unrecorded == ()
        assert not decision.finished

    def test_what_the_journal_says_is_not_changed_by_what_a_job_shows_later(self) -> None:
        lost = History().add(FIRST, OOM).observed
        durable = {one.job_name: one for one in decide(lost).unrecorded}
        graded = History().add(FIRST, GRADED).observed
        decision = reconcile(Desired(make.RUN_UID, PLAN, 10), durable, graded, make.later(3600))
        state = decision.states[FIRST]
        assert isinstance(state, Scored)
        assert state.score == 0.0

    def test_a_job_of_somebody_else_is_not_deleted_whatever_its_name(self) -> None:
        durable = {one.job_name: one for one in decide(History().add(FIRST, GRADED).observed).unrecorded}
        (name,) = durable
        stranger = make.job_view(FIRST, owner_uid="22222222-2222-4222-8222-222222222222")
        observed = Observed(jobs={name: stranger})
        decision = reconcile(Desired(make.RUN_UID, PLAN, 10), durable, observed, make.later(3600))
        assert not [one for one in decision.actions if isinstance(one, DeleteJob)]

    def test_after_a_restart_s3_is_asked_before_a_job_is_made(self) -> None:
        first = decide(Observed(asked=set()), parallelism=1)
        (question,) = first.actions
        assert isinstance(question, AskManifest)
        assert created(decide(Observed(asked={question.name}), parallelism=1)) == [(question.key, 1)]

    def test_after_a_restart_s3_is_asked_for_a_try_that_is_missing_before_a_recorded_one(self) -> None:
        history = History().add(FIRST, INFRA, INFRA).observed
        first, second = decide(history).unrecorded
        desired = Desired(make.RUN_UID, make.plan_of(tasks=3), 1)
        decision = reconcile(desired, {second.job_name: second}, Observed(asked=set()), make.later(3600))
        questions = [one.name for one in decision.actions if isinstance(one, AskManifest)]
        assert first.job_name in questions
        assert FIRST in decision.settling

    def test_a_result_that_only_s3_knows_is_recorded(self) -> None:
        (record,) = decide(History().add(FIRST, GRADED).observed).unrecorded
        decision = decide(Observed(found={record.job_name: record}, asked=set()))
        assert decision.unrecorded == (record,)
        assert isinstance(decision.states[FIRST], Scored)


class TestDispatch:
    def test_no_more_jobs_are_live_than_parallelism_allows(self) -> None:
        assert len(created(decide(Observed(), parallelism=2))) == 2
        assert len(created(decide(live(FIRST), parallelism=2))) == 1
        assert created(decide(live(FIRST), parallelism=1)) == []

    def test_lowering_parallelism_ends_nothing(self) -> None:
        both = live(FIRST)
        other = live(SECOND)
        observed = Observed(jobs={**both.jobs, **other.jobs}, pods={**both.pods, **other.pods})
        decision = decide(observed, parallelism=1)
        assert decision.actions == ()
        assert len(decision.live) == 2

    def test_an_ended_pod_frees_its_slot_before_s3_answers(self) -> None:
        ended = History().add(FIRST, GRADED).observed
        decision = decide(replace(ended, answers={}), parallelism=1)
        assert [type(one) for one in decision.actions] == [AskManifest, CreateJob]
        assert FIRST not in {key for key, _ in created(decision)}

    def test_suspension_lets_live_tries_finish_and_starts_none(self) -> None:
        decision = decide(live(FIRST), suspend=True)
        assert created(decision) == []
        assert [one.key for one in decision.live] == [FIRST]

    def test_a_stop_ends_live_tries_keeps_what_they_did_and_counts_against_nothing(self) -> None:
        observed = live(FIRST)
        decision = decide(observed, suspend=True, stop=True)
        (write,) = decision.actions
        assert isinstance(write, WriteRecord)
        assert (write.end, write.record.outcome) == (True, OutcomeClass.STOPPED)
        ended = replace(write.job, record_json=write.record.to_json())
        told = replace(observed, jobs={ended.name: ended})
        assert decide(told, suspend=True, stop=True).actions == (), "told once"
        pod = make.ended_pod(ended, 143)
        answer = make.found(FIRST, OutcomeClass.DISRUPTED, None, finished_at=make.later(3601))
        over = replace(told, pods={ended.name: (pod,)}, answers={(ended.name, pod.uid): answer})
        plan = limited(3, disruption=0, infrastructure=0)
        (record,) = decide(over, suspend=True, stop=True).unrecorded
        assert (record.outcome, record.manifest_digest) == (OutcomeClass.STOPPED, answer.digest)
        assert isinstance(decide(over, plan).states[FIRST], NextTry), "no limit is drawn on"
        before = {(ended.name, pod.uid): make.found(FIRST, OutcomeClass.INFRA_START, None)}
        (record,) = decide(replace(over, answers=before), suspend=True, stop=True).unrecorded
        assert record.outcome is INFRA, "it had ended by itself before it was stopped"

    def test_a_verdict_that_is_reached_all_the_same_counts(self) -> None:
        observed = live(FIRST)
        (write,) = decide(observed, suspend=True, stop=True).actions
        assert isinstance(write, WriteRecord)
        ended = replace(write.job, record_json=write.record.to_json())
        pod = make.ended_pod(ended)
        over = Observed(
            {ended.name: ended}, {ended.name: (pod,)}, {}, {(ended.name, pod.uid): make.found(FIRST)}
        )
        assert isinstance(decide(over).states[FIRST], Scored)

    def test_a_stop_takes_jobs_that_wait_for_quota_out_of_the_queue(self) -> None:
        job = make.job_view(FIRST, suspended=True)
        decision = decide(Observed(jobs={job.name: job}), suspend=True, stop=True)
        assert decision.actions == (DeleteJob(job),)

    def test_a_pod_that_does_not_go_is_shown_and_keeps_its_attempt(self) -> None:
        observed = live(FIRST)
        ((name, (pod,)),) = observed.pods.items()
        leaving = replace(pod, deleting=True, gone_by=make.later(3000))
        for jobs in (observed.jobs, {}):
            decision = decide(replace(observed, jobs=jobs, pods={name: (leaving,)}))
            (one,) = decision.live
            assert one.waiting is not None
            assert one.waiting.reason is Waiting.STUCK_TERMINATING
            assert FIRST not in {key for key, _ in created(decision)}

    def test_a_job_that_its_queue_took_back_waits_there_however_its_pod_went(self) -> None:
        job = make.job_view(FIRST, suspended=True)
        went = make.pod_view(job, deleting=True, gone_by=make.later(10), gone_at=make.later(11))
        (one,) = decide(Observed({job.name: job}, {job.name: (went,)})).live
        assert one.waiting is not None
        assert one.waiting.reason is Waiting.QUEUED

    def test_nothing_is_made_while_storage_or_gateway_are_away(self) -> None:
        assert decide(Observed(), hold="S3 is away").actions == ()

    def test_a_job_that_no_watch_shows_yet_is_not_made_again(self) -> None:
        job = make.job_view(FIRST)
        decision = decide(Observed(posted={job.name: FIRST}), parallelism=1)
        assert decision.actions == ()

    def test_a_job_of_that_name_that_is_not_ours_is_left_alone(self) -> None:
        job = make.job_view(FIRST, owner_uid="22222222-2222-4222-8222-222222222222")
        observed = Observed(jobs={job.name: job}, conflicts=frozenset({job.name}))
        decision = decide(observed)
        assert FIRST not in {key for key, _ in created(decision)}
        assert not decision.finished

    def test_a_pod_that_outlives_its_job_keeps_the_attempt(self) -> None:
        observed = live(FIRST)
        decision = decide(replace(observed, jobs={}))
        assert FIRST not in {key for key, _ in created(decision)}

    def test_a_terminating_pod_and_its_replacement_are_one_attempt(self) -> None:
        observed = live(FIRST)
        ((name, (pod,)),) = observed.pods.items()
        new: PodView = replace(pod, uid="other", created_at=make.later(5))
        decision = decide(replace(observed, pods={name: (replace(pod, deleting=True), new)}))
        assert [one.key for one in decision.live] == [FIRST]
        assert decision.live[0].waiting is None

    def test_a_pod_too_many_that_is_removed_ends_nothing(self) -> None:
        """The Job controller makes one where the API server died before it had answered for the first."""
        observed = live(FIRST)
        ((name, (pod,)),) = observed.pods.items()
        extra: PodView = replace(pod, uid="other", created_at=make.later(1), deleting=True)
        for removed in (extra, replace(extra, gone_at=make.later(2))):
            decision = decide(replace(observed, pods={name: (removed, pod)}))
            assert [one.key for one in decision.live] == [FIRST]
            assert decision.live[0].waiting is None
            assert FIRST not in {key for key, _ in created(decision)}

    def test_an_attempt_whose_job_vanished_waits_for_s3(self) -> None:
        decision = decide(Observed(unsettled=frozenset({FIRST})))
        assert FIRST not in {key for key, _ in created(decision)}

    def test_second_tries_come_before_first_ones(self) -> None:
        observed = History().add(THIRD, INFRA).observed
        assert created(decide(observed, parallelism=1)) == [(THIRD, 2)]

    def test_a_try_that_cannot_start_is_recorded_and_ended(self) -> None:
        job = make.job_view(FIRST)
        no_room = make.pod_view(job, conditions={})
        decision = decide(Observed(jobs={job.name: job}, pods={job.name: (no_room,)}), plan=PLAN)
        (write,) = [one for one in decision.actions if isinstance(one, WriteRecord)]
        assert (write.end, write.record.outcome) == (True, INFRA)
        assert FIRST in {one.key for one in decision.live}, "its slot is free when its pod is gone"

    def test_the_order_is_random_and_the_same_after_a_restart(self) -> None:
        plans = [make.plan_of(tasks=20, variants=("oracle", "nop")) for _ in range(2)]
        assert plans[0].attempts == plans[1].attempts
        variants = [key.variant for key in plans[0].attempts]
        assert variants != sorted(variants)
        assert len(set(plans[0].attempts)) == 40


ENDINGS = st.sampled_from(
    [GRADED, OOM, INFRA, DISRUPTED, OutcomeClass.RESULT_MISSING, CRASH, OutcomeClass.UNRECOGNISED]
)


@settings(max_examples=150, deadline=None)
@given(
    endings=st.lists(st.lists(ENDINGS, max_size=5), min_size=1, max_size=6),
    parallelism=st.integers(1, 4),
    seed=st.integers(0, 2**32),
    loss=st.sampled_from([0.0, 0.3, 1.0]),
)
def test_any_order_and_any_loss_come_to_the_same_end(
    endings: list[list[OutcomeClass]], parallelism: int, seed: int, loss: float
) -> None:
    """Passes, ends, restarts, crashes, lists, deletions, suspensions: the end is what the script says."""
    plan = limited(len(endings), infrastructure=2, disruption=3, verification=1)
    script = {
        (key, number): outcome
        for key, outcomes in zip(plan.attempts, endings, strict=True)
        for number, outcome in enumerate(outcomes, 1)
    }
    world = World(plan, script, parallelism, random.Random(seed), loss)
    for _ in range(200):
        _step(world)
        _check(world)
    decision = _settle(world)
    calm = World(plan, script, 1, random.Random(0), 0.0)
    expected = _settle(calm)
    assert decision.finished
    assert _results(decision) == _results(expected)
    assert world.truth.tries == calm.truth.tries, "each try of the script ran once, and no other"
    assert set(world.truth.made.values()) <= {1}, "no Job was made twice"
    for key, outcomes in world.truth.tries.items():
        left = next((n for n, one in enumerate(outcomes, 1) if one in LEAVE_ARTIFACTS), len(outcomes))
        assert world.truth.agents[key] == left, "no agent runs again while artefacts wait for a verdict"
    assert world.truth.jobs == {}, "a Job goes when its result is durable"


@settings(max_examples=50, deadline=None)
@given(
    endings=st.lists(st.lists(ENDINGS, max_size=4), min_size=2, max_size=8),
    may_begin=st.integers(1, 8),
    seed=st.integers(0, 2**32),
    loss=st.sampled_from([0.0, 0.3, 1.0]),
)
def test_no_order_and_no_loss_begins_more_attempts_than_the_budget_allows(
    endings: list[list[OutcomeClass]], may_begin: int, seed: int, loss: float
) -> None:
    plan = limited(len(endings), infrastructure=1, disruption=1, verification=1)
    script = {
        (key, number): outcome
        for key, outcomes in zip(plan.attempts, endings, strict=True)
        for number, outcome in enumerate(outcomes, 1)
    }
    world = World(plan, script, 4, random.Random(seed), loss, budget=Budget(attempts=may_begin))
    for _ in range(150):
        _step(world)
    world.suspend = world.stop = False
    decision = world.operator_pass()
    for _ in range(100):
        world.relist()
        world.tick(60)
        decision = world.operator_pass()
        for job in world.truth.live():
            world.finish(job.name)
    assert len(world.truth.tries) == min(may_begin, len(endings))
    assert decision.finished == (may_begin >= len(endings))
    assert (decision.brakes.spent is not None) == (may_begin < len(endings))


def _step(world: World) -> None:
    chance = world.random.random()
    if chance < 0.35:
        world.operator_pass()
    elif chance < 0.4:
        world.operator_pass(crash_after=world.random.randrange(3))
    elif chance < 0.75:
        running = world.truth.live()
        if running:
            world.finish(world.random.choice(running).name)
    elif chance < 0.8:
        world.restart()
    elif chance < 0.85:
        world.relist()
    elif chance < 0.88:
        ended = [name for name in world.truth.manifests if name in world.truth.jobs]
        if ended:
            world.delete_ended(world.random.choice(ended))
    elif chance < 0.92:
        world.suspend = not world.suspend
        world.stop = world.suspend and world.random.random() < 0.5
    else:
        world.tick()


def _check(world: World) -> None:
    running = world.truth.live()
    assert len(running) <= world.parallelism
    assert len({job.attempt_key for job in running}) == len(running), "one live Job an attempt"


def _settle(world: World) -> Decision:
    """Let everything come to rest, not suspended."""
    world.suspend = world.stop = False
    for _ in range(200):
        world.relist()
        world.tick(60)
        decision = world.operator_pass()
        for job in world.truth.live():
            world.finish(job.name)
        if decision.finished:
            return decision
    raise AssertionError("the run did not come to an end")


def _results(decision: Decision) -> dict[AttemptKey, tuple[str, object]]:
    return {
        key: (type(state).__name__, state.score if isinstance(state, Scored) else None)
        for key, state in decision.states.items()
    }


def test_an_ended_job_whose_pod_no_watch_has_shown_is_not_judged_by_the_job_alone() -> None:
    """The watch of pods may be behind: what it does not show yet may be the agent's own doing (BAR 4)."""
    failed = ConditionView("Failed", "True", "BackoffLimitExceeded", "", make.later(60))
    job = make.job_view(FIRST, finished=failed)
    absent = {(job.name, ""): ManifestAbsent(make.later(600))}
    unsure = decide(Observed(jobs={job.name: job}, answers=absent, podless=frozenset()))
    assert not unsure.tries
    assert FIRST not in {key for key, _ in created(unsure)}
    sure = decide(Observed(jobs={job.name: job}, answers=absent, podless=frozenset({job.name})))
    assert [one.outcome for one in sure.tries] == [OutcomeClass.DISRUPTED]
    oom = make.ended_pod(job, containers={"environment": make.ended("environment", 137, "OOMKilled")})
    seen = decide(
        Observed(
            jobs={job.name: job},
            pods={job.name: (oom,)},
            podless=frozenset(),
            answers={(job.name, oom.uid): ManifestAbsent(make.later(600))},
        )
    )
    assert [one.outcome for one in seen.tries] == [OutcomeClass.AGENT_OOM]
