"""The status tells the story: causes and next steps in conditions, small at any size (cases.md BAR 8)."""

import json
from dataclasses import replace
from typing import Any

import pytest

from assay.api.conditions import find_condition, with_condition
from assay.api.evaluation_run import Budget, EvaluationRun
from assay.api.evaluation_run_status import EvaluationRunStatus, RunCondition, RunReason
from assay.api.evidence import TokenCounts
from assay.api.outcome import OutcomeClass
from assay.api.resource import status_document
from assay.core.observation import ConditionView, JobEvent
from assay.core.plan import PlanRefused, RunPlan
from assay.core.reconcile import Decision, Desired, Observed, reconcile
from assay.core.resolve import Problem
from assay.core.status import Findings, is_finished, is_urgent, make_status
from assay.core.suspension import resumed_at, stands_still
from tests.operator_kit import builders as make
from tests.unit.operator.test_reconcile import History, at_rest, live

PLAN = make.plan_of(tasks=2)
FIRST, SECOND = PLAN.attempts


def decide(observed: Observed, plan: RunPlan = PLAN, **desired: Any) -> Decision:
    return reconcile(replace(Desired(make.RUN_UID, plan, 10), **desired), {}, observed, make.later(3600))


def told(
    observed: Observed | None = None,
    run: EvaluationRun | None = None,
    plan: RunPlan = PLAN,
    *,
    durable: bool = False,
    **findings: Any,
) -> EvaluationRunStatus:
    look = at_rest if durable else decide
    decision = look(observed, plan) if observed is not None else None
    found = replace(Findings(plan=plan, decision=decision), **findings)
    return make_status(run or make.run_object(), found, make.later(3600))


def said(status: EvaluationRunStatus, type_: RunCondition) -> tuple[str, str, str]:
    found = find_condition(status.conditions, type_)
    assert found is not None
    return found.status, found.reason, found.message


def test_the_states_are_disjoint_and_their_sum_is_planned() -> None:
    observed = History().add(FIRST, OutcomeClass.GRADED).observed
    counts = told(observed).attempts
    assert (counts.planned, counts.recorded, counts.waiting, counts.live) == (2, 1, 1, 0)


def test_an_attempt_that_s3_has_not_answered_for_is_live() -> None:
    observed = replace(History().add(FIRST, OutcomeClass.GRADED).observed, answers={})
    assert told(observed).attempts.live == 1


def test_a_complete_run_says_so_once_and_for_all() -> None:
    history = History().add(FIRST, OutcomeClass.GRADED).add(SECOND, OutcomeClass.AGENT_OOM)
    status = told(history.observed, durable=True)
    assert said(status, RunCondition.COMPLETE) == ("True", "AllRecorded", "2 of 2 attempts have a score")
    assert said(status, RunCondition.PROGRESSING)[:2] == ("False", "Finished")
    assert status.completed_at == make.later(3600)
    assert is_finished(make.run_object().model_copy(update={"status": status}))


def test_a_run_is_not_complete_before_every_result_is_durable() -> None:
    history = History().add(FIRST, OutcomeClass.GRADED).add(SECOND, OutcomeClass.GRADED)
    status = told(history.observed)
    assert said(status, RunCondition.COMPLETE)[0] == "False"
    assert status.attempts.recorded == 2


def test_too_little_coverage_is_a_failure_that_names_the_most_frequent_cause() -> None:
    reason = "the environment's image has no shell"
    history = History().add(FIRST, OutcomeClass.GRADED)
    (job,) = [make.job_view(SECOND)]
    pod = make.ended_pod(job)
    found = make.found(SECOND, OutcomeClass.VERIFIER_CRASH, None, reason=reason)
    observed = replace(
        history.observed,
        jobs={**history.observed.jobs, job.name: job},
        pods={**history.observed.pods, job.name: (pod,)},
        answers={**history.observed.answers, (job.name, pod.uid): found},
    )
    status, why, message = said(told(observed, durable=True), RunCondition.FAILED)
    assert (status, why) == ("True", "CoverageTooLow")
    assert "1 of 2 attempts have a score; spec.minCoveragePercent is 100" in message
    assert reason in message
    assert said(told(observed, durable=True), RunCondition.PROGRESSING)[1] == "CoverageTooLow", (
        "kubectl get shows it"
    )
    enough = make.run_object(minCoveragePercent=50)
    assert said(told(observed, enough, durable=True), RunCondition.COMPLETE)[0] == "True"


def test_no_valid_attempt_is_a_failure_even_where_no_coverage_is_asked_for() -> None:
    history = History()
    for key in (FIRST, SECOND):
        history.add(key, OutcomeClass.VERIFIER_CRASH)
    run = make.run_object(minCoveragePercent=0)
    assert said(told(history.observed, run, durable=True), RunCondition.FAILED)[:2] == (
        "True",
        "NoValidAttempt",
    )


@pytest.mark.parametrize(
    ("outcome", "reason", "advice"),
    [
        (OutcomeClass.ISOLATION_ABSENT, RunReason.ISOLATION_ABSENT, "NetworkPolicy"),
        (OutcomeClass.PROVIDER_AUTH, RunReason.PROVIDER_AUTH, "secretRef"),
        (OutcomeClass.PROVIDER_FUNDS, RunReason.PROVIDER_FUNDS, "add funds"),
        (OutcomeClass.LEDGER_MISMATCH, RunReason.LEDGER_MISMATCH, "ublish the ledger again"),
    ],
)
def test_a_stopped_run_names_the_job_the_cause_and_the_fix(
    outcome: OutcomeClass, reason: RunReason, advice: str
) -> None:
    observed = History().add(FIRST, outcome).observed
    status, why, message = said(told(observed), RunCondition.SUSPENDED)
    assert (status, why) == ("True", reason)
    assert make.job_view(FIRST).name in message
    assert advice.lower() in message.lower()
    assert "spec.suspend" in message


def test_a_missing_secret_has_a_reason_of_its_own() -> None:
    job = make.job_view(FIRST)
    pod = make.ended_pod(job)
    words = "the last model call ended with 424: Secret evals/openai, key api-key: the Secret does not exist"
    answer = make.found(FIRST, OutcomeClass.PROVIDER_AUTH, None, reason=words)
    observed = Observed(jobs={job.name: job}, pods={job.name: (pod,)}, answers={(job.name, pod.uid): answer})
    _, reason, message = said(told(observed), RunCondition.SUSPENDED)
    assert reason == RunReason.SECRET_MISSING
    assert "Secret evals/openai" in message


def test_going_on_after_a_stop_needs_a_person() -> None:
    observed = History().add(FIRST, OutcomeClass.PROVIDER_AUTH).observed
    run = make.run_object()
    stopped = run.model_copy(update={"status": told(observed, run)})
    assert resumed_at(stopped, make.later(4000)) is None
    asked = stopped.model_copy(update={"spec": stopped.spec.model_copy(update={"suspend": True})})
    paused = asked.model_copy(update={"status": told(observed, asked)})
    assert said(paused.status, RunCondition.SUSPENDED)[1] == RunReason.REQUESTED
    assert resumed_at(paused, make.later(4000)) is None
    back = paused.model_copy(update={"spec": run.spec})
    assert resumed_at(back, make.later(4000)) == make.later(4000)
    decision = decide(observed, resumed_at=make.later(4000))
    going = back.model_copy(
        update={"status": make_status(back, Findings(plan=PLAN, decision=decision), make.later(4000))}
    )
    assert said(going.status, RunCondition.SUSPENDED)[0] == "False"
    assert resumed_at(going, make.later(5000)) == make.later(4001)


def test_the_beginning_of_a_run_forgives_nothing() -> None:
    run = make.run_object()
    fresh = run.model_copy(update={"status": told(live(FIRST), run)})
    assert resumed_at(fresh, make.later(4000)) is None


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        ("exceeded quota: small", RunReason.WAITING_FOR_QUOTA),
        ('violates PodSecurity "restricted:latest"', RunReason.PODS_REFUSED),
    ],
)
def test_a_run_whose_pods_cannot_be_made_says_why(event: str, reason: RunReason) -> None:
    job = make.job_view(FIRST)
    observed = Observed(jobs={job.name: job}, events={job.name: JobEvent("FailedCreate", event)})
    status, why, message = said(told(observed), RunCondition.PROGRESSING)
    assert (status, why) == ("False", reason)
    assert event in message
    assert job.name in message


def test_one_try_that_works_is_progress_though_others_wait() -> None:
    working = live(FIRST)
    job = make.job_view(SECOND)
    no_room = ConditionView("PodScheduled", "False", "Unschedulable", "no nodes", make.NOW)
    pod = make.pod_view(job, conditions={"PodScheduled": no_room}, created_at=make.later(3599))
    observed = Observed(jobs={**working.jobs, job.name: job}, pods={**working.pods, job.name: (pod,)})
    assert said(told(observed), RunCondition.PROGRESSING)[:2] == ("True", "Running")


@pytest.mark.parametrize(
    ("findings", "reason"),
    [
        ({"ledgers": Problem(RunReason.LEDGER_NOT_FOUND, "Ledger x …")}, RunReason.WAITING_FOR_LEDGERS),
        ({"variants": Problem(RunReason.VARIANT_NOT_FOUND, "…")}, RunReason.WAITING_FOR_VARIANTS),
        ({"hold": Problem(RunReason.WAITING_FOR_STORAGE, "…")}, RunReason.WAITING_FOR_STORAGE),
        ({"hold": Problem(RunReason.WAITING_FOR_GATEWAY, "…")}, RunReason.WAITING_FOR_GATEWAY),
    ],
)
def test_what_is_waited_for_is_the_reason(findings: dict[str, Any], reason: RunReason) -> None:
    status = told(**findings)
    assert said(status, RunCondition.PROGRESSING)[:2] == ("False", reason)
    assert said(status, RunCondition.COMPLETE)[0] == "False"


def test_a_refused_plan_is_a_failure_before_the_start() -> None:
    refused = PlanRefused(RunReason.PLAN_VIOLATED, "spec.retryLimits.infrastructure is 9 …")
    status = told(refused=refused)
    assert said(status, RunCondition.FAILED) == ("True", "PlanViolated", str(refused))
    assert status.started_at is None


def test_waiting_for_long_is_a_stall() -> None:
    run = make.run_object()
    hold = Problem(RunReason.WAITING_FOR_STORAGE, "the store does not answer")
    waiting = run.model_copy(update={"status": make_status(run, Findings(plan=PLAN, hold=hold), make.NOW)})
    soon = make_status(waiting, Findings(plan=PLAN, hold=hold), make.later(899))
    assert said(soon, RunCondition.STALLED)[0] == "False"
    late = make_status(waiting, Findings(plan=PLAN, hold=hold), make.later(900))
    assert said(late, RunCondition.STALLED)[0] == "True"
    assert "the store does not answer" in said(late, RunCondition.STALLED)[2]


def test_the_same_findings_write_nothing_new() -> None:
    run = make.run_object()
    observed = live(FIRST)
    first = told(observed, run)
    again = run.model_copy(update={"status": first})
    assert make_status(again, Findings(plan=PLAN, decision=decide(observed)), make.later(7200)) == first


def test_a_status_read_back_from_the_api_server_is_the_same() -> None:
    history = History().add(FIRST, OutcomeClass.INFRA_START, OutcomeClass.GRADED)
    status = told(history.observed)
    document = json.loads(json.dumps(status_document(status)))
    assert EvaluationRunStatus.model_validate(document) == status


def test_3655_attempts_stay_below_128_kib() -> None:
    plan = make.plan_of(tasks=731, variants=("a", "b", "c", "d", "e"))
    history = History()
    jobs: dict[str, Any] = {}
    pods: dict[str, Any] = {}
    answers: dict[Any, Any] = {}
    for key in plan.attempts:
        one = History().add(key, OutcomeClass.RESULT_MISSING).observed
        jobs |= one.jobs
        pods |= one.pods
        answers |= one.answers
    observed = replace(history.observed, jobs=jobs, pods=pods, answers=answers)
    status = told(observed, plan=plan)
    assert sum(one.tries for one in status.outcomes) == 3655
    assert len(json.dumps(status_document(status))) < 128 * 1024


def test_a_run_whose_first_attempts_fail_alike_names_the_cause_and_the_way_on() -> None:
    plan = make.plan_of(tasks=12)
    history = History()
    for key in plan.attempts[:10]:
        history.add(key, OutcomeClass.SETUP_FAILED, reason="apt-get: no route to host", tokens=TokenCounts())
    status = told(history.observed, plan=plan, durable=True)
    suspended, reason, message = said(status, RunCondition.SUSPENDED)
    assert (suspended, reason) == ("True", "CircuitOpen")
    assert message.startswith("the first 10 attempts all ended as SetupFailed, e.g. Job ")
    for words in (
        "apt-get: no route to host",
        "the setup must not need",
        "set spec.suspend to true and back",
    ):
        assert words in message
    assert said(status, RunCondition.PROGRESSING)[:2] == ("False", "CircuitOpen"), "kubectl get shows it"


def test_a_spent_budget_is_named_with_its_field_and_the_way_on() -> None:
    plan = make.plan_of(tasks=2)
    decision = decide(
        History().add(plan.attempts[0], OutcomeClass.GRADED).observed, budget=Budget(attempts=1)
    )
    status = told(None, decision=decision)
    assert said(status, RunCondition.SUSPENDED) == (
        "True",
        "BudgetExhausted",
        "spec.budget.attempts: 1 of 2 attempts have begun, 1 may; live tries finish. Raise it to go on.",
    )
    assert said(status, RunCondition.COMPLETE)[0] == "False"


def test_pods_that_do_not_go_are_shown_in_the_one_line_of_kubectl_get() -> None:
    observed = live(FIRST)
    ((name, (pod,)),) = observed.pods.items()
    leaving = replace(pod, deleting=True, gone_by=make.later(3000), node="worker-7")
    status = told(replace(observed, pods={name: (leaving,)}))
    progressing, reason, message = said(status, RunCondition.PROGRESSING)
    assert (progressing, reason) == ("False", "StuckTerminating")
    assert "worker-7" in message


def test_what_stopped_a_run_stands_after_a_restart_until_its_tries_can_be_read_again() -> None:
    history = History().add(FIRST, OutcomeClass.PROVIDER_AUTH)
    stopped = make.run_object().model_copy(update={"status": told(history.observed)})
    assert said(stopped.status, RunCondition.SUSPENDED)[:2] == ("True", "ProviderAuth")
    unread = told(Observed(), stopped)
    assert said(unread, RunCondition.SUSPENDED)[:2] == ("True", "ProviderAuth")
    assert stands_still(stopped)
    asked = make.run_object(suspend=True).model_copy(update={"status": unread})
    person = make.run_object().model_copy(update={"status": told(Observed(), asked)})
    assert not stands_still(person)
    assert said(told(Observed(), person), RunCondition.SUSPENDED)[0] == "False"


def test_a_run_that_has_ended_is_not_suspended_whatever_stopped_it_before() -> None:
    history = History().add(FIRST, OutcomeClass.PROVIDER_AUTH)
    stopped = make.run_object().model_copy(update={"status": told(history.observed)})
    over = History().add(FIRST, OutcomeClass.GRADED).add(SECOND, OutcomeClass.GRADED)
    assert said(told(over.observed, stopped, durable=True), RunCondition.SUSPENDED)[0] == "False"


@pytest.mark.parametrize(
    ("before", "after", "urgent"),
    [
        (RunReason.RUNNING, RunReason.UNSCHEDULABLE, False),
        (RunReason.UNSCHEDULABLE, RunReason.RUNNING, False),
        (RunReason.RUNNING, RunReason.WAITING_FOR_STORAGE, True),
        (RunReason.WAITING_FOR_STORAGE, RunReason.RUNNING, True),
        (RunReason.RUNNING, RunReason.FINISHED, True),
        (None, RunReason.RUNNING, True),
    ],
)
def test_what_changes_with_every_pod_is_not_written_at_once(
    before: RunReason | None, after: RunReason, urgent: bool
) -> None:
    old, _ = with_condition(
        [], RunCondition.PROGRESSING, True, before or RunReason.RUNNING, generation=1, now=make.NOW
    )
    new, _ = with_condition(old, RunCondition.PROGRESSING, True, after, generation=1, now=make.NOW)
    assert is_urgent(old if before else [], new[0]) is urgent
