"""A run that may make no more tries: what its last ones come to stays on record."""

from dataclasses import replace
from typing import Any

from assay.api.evaluation_run import EvaluationRun
from assay.api.evaluation_run_status import ResolvedImages
from assay.api.outcome import OutcomeClass
from assay.core import outcomes
from assay.core.actions import AskManifest, DeleteJob, WriteRecord
from assay.core.outcomes import TABLE, TABLE_DIGEST
from assay.core.pinned_run import PinnedRun, Settled, rules_problem, settle
from assay.core.reconcile import Observed
from assay.core.record import AttemptKey, ManifestAnswer
from assay.core.resolve import Resolution, resolved_status
from tests.operator_kit import builders as make

KEY = AttemptKey("ledger", "task-a", "oracle", 0)
JOB = make.job_view(KEY)
IMAGES = ResolvedImages(runner=make.IMAGE, sandboxd=make.IMAGE)


def started(**spec: Any) -> EvaluationRun:
    """A run that has started, whatever its names stand for since."""
    resolution = Resolution((make.run_ledger(),), (make.run_variant(),), None, None)
    resolved = resolved_status(resolution, IMAGES).model_dump(mode="json", by_alias=True)
    return make.run_object(status={"resolved": resolved}, **spec)


def last_tries(observed: Observed, run: EvaluationRun | None = None) -> Settled:
    pinned = PinnedRun.of(run or started())
    assert pinned is not None
    return settle(pinned, {}, observed, make.later(3600))


def of_one(answer: ManifestAnswer | None) -> Observed:
    pod = make.ended_pod(JOB)
    answers = {} if answer is None else {(JOB.name, pod.uid): answer}
    return Observed(jobs={JOB.name: JOB}, pods={JOB.name: (pod,)}, answers=answers)


def test_a_run_that_has_not_started_has_no_tries() -> None:
    assert PinnedRun.of(make.run_object()) is None


def test_what_a_live_try_comes_to_is_recorded_and_no_other_is_made() -> None:
    (question,) = last_tries(of_one(None)).actions
    assert isinstance(question, AskManifest)
    settled = last_tries(of_one(make.found(KEY, reward=1.0)))
    (record,) = settled.unrecorded
    assert (record.outcome, record.reward) == (OutcomeClass.GRADED, 1.0)
    assert settled.actions == ()
    failed = last_tries(of_one(make.found(KEY, OutcomeClass.SETUP_FAILED, None)))
    assert [one.outcome for one in failed.unrecorded] == [OutcomeClass.SETUP_FAILED]
    assert failed.actions == ()


def test_a_try_on_what_the_name_stands_for_now_is_no_result_of_the_run() -> None:
    pinned = PinnedRun.of(started())
    assert pinned is not None
    other = replace(pinned, ledgers={"ledger": "sha256:" + "b" * 64})
    (record,) = settle(other, {}, of_one(make.found(KEY, reward=1.0)), make.later(3600)).unrecorded
    assert record.outcome is OutcomeClass.LEDGER_MISMATCH


def test_its_job_goes_when_the_result_is_durable() -> None:
    observed = of_one(make.found(KEY, reward=1.0))
    pinned = PinnedRun.of(started())
    assert pinned is not None
    (record,) = settle(pinned, {}, observed, make.later(3600)).unrecorded
    after = settle(pinned, {JOB.name: record}, observed, make.later(3600))
    assert (after.actions, after.unrecorded) == ((DeleteJob(JOB),), ())


def test_a_person_may_still_end_them() -> None:
    pod = make.pod_view(JOB, make.container("runner"), make.container("environment"))
    live = Observed(jobs={JOB.name: JOB}, pods={JOB.name: (pod,)})
    assert last_tries(live).actions == ()
    (written,) = last_tries(live, started(suspend=True, suspendPolicy="Stop")).actions
    assert isinstance(written, WriteRecord)
    assert (written.record.outcome, written.end) == (OutcomeClass.STOPPED, True)


def test_a_run_goes_on_under_the_rules_that_it_began_with_alone() -> None:
    run = started()
    resolved = run.status.resolved
    assert resolved is not None
    assert resolved.outcome_table == TABLE_DIGEST
    assert rules_problem(run) is None
    other = resolved.model_copy(update={"outcome_table": "sha256:" + "b" * 64, "operator_version": "0.0.9"})
    problem = rules_problem(
        run.model_copy(update={"status": run.status.model_copy(update={"resolved": other})})
    )
    assert problem is not None
    assert problem.reason == "OutcomeTableChanged"
    for part in ("0.0.9", TABLE_DIGEST, "stay on record", "Install the version that it began with"):
        assert part in problem.message
    assert len(problem.message) <= 1024


def test_a_run_of_a_version_that_pinned_no_rules_goes_on() -> None:
    resolved = started().status.resolved
    assert resolved is not None
    older = resolved.model_copy(update={"outcome_table": None})
    run = make.run_object()
    assert (
        rules_problem(run.model_copy(update={"status": run.status.model_copy(update={"resolved": older})}))
        is None
    )


def test_words_are_no_rules_and_limits_are() -> None:
    def digest(**changes: object) -> str:
        rule = replace(TABLE[OutcomeClass.DISRUPTED], **changes)  # type: ignore[arg-type]
        return outcomes.table_digest({**TABLE, OutcomeClass.DISRUPTED: rule})

    assert digest() == TABLE_DIGEST
    assert digest(meaning="said otherwise", fix="do this") == TABLE_DIGEST
    assert digest(limit=outcomes.Limit.INFRASTRUCTURE) != TABLE_DIGEST
    assert digest(counted=False) != TABLE_DIGEST
