"""A condition's message names what happened, an example and the next step within its limit (cases.md C1)."""

from dataclasses import replace

import pytest

from assay.api.conditions import MESSAGE_LIMIT
from assay.api.evaluation_run_status import SCORES_LIMIT, RunCondition, VectorRow
from assay.api.outcome import OutcomeClass
from assay.core.observation import INJECT, JobEvent, PodView
from assay.core.reconcile import Observed
from assay.core.status_words import TRY_AGAIN, short_scores
from tests.operator_kit import builders as make
from tests.unit.operator.test_reconcile import History, live
from tests.unit.operator.test_status import FIRST, PLAN, SECOND, said, told

IMAGE = "registry.example/tasks/deep@sha256:" + "a" * 64
PULL = f'Back-off pulling image "{IMAGE}": ErrImagePull: failed to resolve reference "{IMAGE}": not found'
NODES = "0/40 nodes are available: 3 Insufficient cpu, 37 node(s) had untolerated taint {gpu: true}."


def pod_with(waiting: str, message: str) -> PodView:
    job = make.job_view(FIRST)
    stuck = make.container(INJECT, started_at=None, waiting_reason=waiting, waiting_message=message)
    return make.pod_view(job, stuck, created_at=make.later(3590))


def no_room(message: str) -> PodView:
    conditions = make.true("PodScheduled", "Unschedulable", message)
    found = {name: replace(one, status="False") for name, one in conditions.items()}
    return make.pod_view(make.job_view(FIRST), conditions=found, created_at=make.later(3590))


def seen(pod: PodView | None = None, event: str = "", *, suspended: bool = False) -> Observed:
    job = make.job_view(FIRST, suspended=suspended)
    pods = {} if pod is None else {job.name: (pod,)}
    events = {job.name: JobEvent("FailedCreate", event)} if event else {}
    return Observed(jobs={job.name: job}, pods=pods, events=events)


QUOTA = 'pods "x" is forbidden: exceeded quota: small, requested: cpu=4, used: cpu=8, limited: cpu=8'


@pytest.mark.parametrize(
    ("observed", "causes", "step"),
    [
        (
            seen(pod_with("ImagePullBackOff", PULL)),
            ("ImagePullBackOff", IMAGE, "container inject"),
            "push the image",
        ),
        (seen(pod_with("CreateContainerConfigError", 'secret "x" not found')), ('secret "x"',), "mend what"),
        (seen(no_room(NODES)), (NODES[:-1],), "add nodes"),
        (seen(event=QUOTA), ("exceeded quota: small",), "raise the ResourceQuota"),
        (seen(event='violates PodSecurity "restricted:latest"'), ("PodSecurity",), "let the namespace admit"),
        (seen(suspended=True), ("suspended",), "Kueue starts it"),
    ],
)
def test_a_wait_names_cause_example_and_next_step(
    observed: Observed, causes: tuple[str, ...], step: str
) -> None:
    status, _, message = said(told(observed), RunCondition.PROGRESSING)
    assert status == "False"
    for part in (*causes, make.job_view(FIRST).name, f"Next: {step}"):
        assert part in message


def test_a_cause_of_many_words_does_not_push_the_next_step_out() -> None:
    message = said(told(seen(no_room("no node fits, because " * 200))), RunCondition.PROGRESSING)[2]
    assert len(message) < MESSAGE_LIMIT
    assert message.endswith("another spec.placement")


def test_a_stall_repeats_cause_and_next_step() -> None:
    observed = seen(no_room(NODES))
    run = make.run_object()
    status = told(observed, run)
    ago = [one.model_copy(update={"last_transition_time": make.NOW}) for one in status.conditions]
    run = run.model_copy(update={"status": status.model_copy(update={"conditions": ago})})
    stalled, _, message = said(told(observed, run), RunCondition.STALLED)
    assert stalled == "True"
    assert NODES[:-1] in message
    assert "Next: add nodes" in message


def test_a_run_that_a_person_has_stopped_is_not_stalled() -> None:
    run = make.run_object(suspend=True)
    status = told(Observed(), run)
    assert said(status, RunCondition.PROGRESSING)[:2] == ("False", "Requested")
    ago = [one.model_copy(update={"last_transition_time": make.NOW}) for one in status.conditions]
    run = run.model_copy(update={"status": status.model_copy(update={"conditions": ago})})
    assert said(told(Observed(), run), RunCondition.STALLED)[0] == "False"


def test_a_run_that_moves_says_how_far_it_is_and_what_keeps_the_rest() -> None:
    moving = live(FIRST)
    assert said(told(moving), RunCondition.PROGRESSING) == (
        "True",
        "Running",
        "0 of 2 attempts have ended, 1 tries are live",
    )
    job = make.job_view(SECOND)
    pod = replace(pod_with("ErrImagePull", PULL), job_name=job.name, attempt_key=job.attempt_key)
    both = Observed(jobs={**moving.jobs, job.name: job}, pods={**moving.pods, job.name: (pod,)})
    status, _, message = said(told(both), RunCondition.PROGRESSING)
    assert status == "True"
    assert "2 tries are live; 1 live try waits" in message
    assert IMAGE in message


def test_what_is_outstanding_is_a_sentence() -> None:
    observed = History().add(FIRST, OutcomeClass.GRADED).observed
    assert said(told(observed), RunCondition.COMPLETE)[2] == "1 of 2 attempts have not ended"


def test_a_run_without_its_coverage_names_the_job_the_cause_and_how_to_try_again() -> None:
    history = History()
    for key in PLAN.attempts:
        history.add(key, *[OutcomeClass.SETUP_FAILED] * 4, reason="apt-get ended with exit code 100")
    status, reason, message = said(told(history.observed, durable=True), RunCondition.FAILED)
    assert (status, reason) == ("True", "NoValidAttempt")
    assert "0 of 2 attempts have a score" in message
    assert "2 ended as SetupFailed, e.g. Job " in message
    assert "exit code 100" in message
    assert message.endswith(TRY_AGAIN)


def row(variant: str, score: str | None, valid: int, ledger: str = "a") -> VectorRow:
    return VectorRow(
        ledger=ledger,
        variant=variant,
        planned=9,
        valid=valid,
        coverage="1",
        score_strict=score,
        ledger_digest=make.DIGEST,
    )


def test_scores_in_short_come_with_their_n_the_best_first() -> None:
    rows = [row("x", "0.25", 8), row("y", "1", 9), row("z", None, 0)]
    assert short_scores(rows) == "y 100.0% n=9/9, x 25.0% n=8/9"
    assert short_scores([row("x", "0", 0)]) == ""


def test_scores_of_several_ledgers_are_not_pooled() -> None:
    rows = [row("x", "0.5", 9, ledger=name) for name in ("one", "two")]
    assert short_scores(rows) == "one/x 50.0% n=9/9, two/x 50.0% n=9/9"


def test_scores_of_many_variants_say_how_many_are_left_out() -> None:
    words = short_scores([row(f"variant-{number}", str(number / 100), 9) for number in range(50)])
    assert len(words) <= SCORES_LIMIT
    assert words.startswith("variant-49 49.0% n=9/9, ")
    shown = words.count("n=")
    assert words.endswith(f", +{50 - shown}")
