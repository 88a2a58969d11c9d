"""The status of a run from what one pass found: conditions that name the cause and the next step."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from assay.api.conditions import Condition, find_condition, is_true, truncated, with_condition
from assay.api.evaluation_run import EvaluationRun
from assay.api.evaluation_run_status import (
    FAILURE_MESSAGE_LIMIT,
    AttemptCounts,
    EvaluationRunStatus,
    Failure,
    OutcomeCount,
    Resolved,
    RunCondition,
    RunReason,
    VectorRow,
)
from assay.api.outcome import OutcomeClass
from assay.core.attempts import Invalid, Scored
from assay.core.deviations import NON_STANDARD
from assay.core.names import run_prefix
from assay.core.plan import PlanRefused, RunPlan
from assay.core.pod_causes import Waiting
from assay.core.reconcile import Decision, LiveTry
from assay.core.record import TryRecord
from assay.core.resolve import Problem
from assay.core.row_sums import FiguresSoFar
from assay.core.scoring import vector_row
from assay.core.status_words import (
    lost_words,
    outstanding_words,
    running_words,
    short_scores,
    waiting_words,
)
from assay.core.suspension import suspension
from assay.core.try_spec import storage_of
from assay.core.written_report import WrittenReport

STALLED_SECONDS = 15 * 60
"""A run is stalled when for this long no try worked although attempts are outstanding (cases.md E20)."""


@dataclass(frozen=True, slots=True)
class Findings:
    """What one pass found out about a run. `decision` is None where there is no plan to decide on."""

    ledgers: Problem | None = None
    variants: Problem | None = None
    hold: Problem | None = None
    """Why no Job may be made although the plan is there: storage or gateway."""
    refused: PlanRefused | None = None
    plan: RunPlan | None = None
    decision: Decision | None = None
    resolved: Resolved | None = None
    """Set when the run starts with this pass."""
    report: WrittenReport | None = None
    """Set when the decision is finished and its report lies in S3."""
    report_outstanding: bool = False
    """The decision is finished, and the store could not take its report: the run has not ended yet."""


_WAITING_REASONS = {
    Waiting.QUEUED: RunReason.WAITING_FOR_QUOTA,
    Waiting.QUOTA_BLOCKED: RunReason.WAITING_FOR_QUOTA,
    Waiting.POD_REFUSED: RunReason.PODS_REFUSED,
    Waiting.UNSCHEDULABLE: RunReason.UNSCHEDULABLE,
    Waiting.IMAGE_UNAVAILABLE: RunReason.IMAGE_UNAVAILABLE,
    Waiting.CONTAINER_NOT_CREATED: RunReason.IMAGE_UNAVAILABLE,
    Waiting.POD_NOT_STARTED: RunReason.POD_NOT_STARTED,
    Waiting.STUCK_TERMINATING: RunReason.STUCK_TERMINATING,
}
_COMES_AND_GOES = frozenset({RunReason.RUNNING, *_WAITING_REASONS.values()})
"""How live tries fare changes with every pod that comes or goes."""


def is_finished(run: EvaluationRun) -> bool:
    """Whether the run has ended: it does not change any more, unless `spec.retry` asks it to go on."""
    if run.spec.retry.unscored_only > run.status.observed_retry:
        return False
    conditions = run.status.conditions
    return is_true(conditions, RunCondition.COMPLETE) or is_true(conditions, RunCondition.FAILED)


def is_urgent(old: Sequence[Condition], new: Condition) -> bool:
    """Whether a condition that changed is to be written at once, not with the next figures."""
    before = find_condition(old, new.type)
    return before is None or not {before.reason, new.reason} <= _COMES_AND_GOES


def make_status(
    run: EvaluationRun, findings: Findings, now: datetime, *, figures: bool = True
) -> EvaluationRunStatus:
    """The status to be written; equal to `run.status` where nothing changed.

    Without `figures` the counts and the vector stay as they are: they take time on a large run.
    """
    writer = _Conditions(run, now)
    writer.set(
        RunCondition.LEDGERS_VERIFIED, findings.ledgers is None, *_said(findings.ledgers, RunReason.VERIFIED)
    )
    writer.set(
        RunCondition.VARIANTS_RESOLVED,
        findings.variants is None,
        *_said(findings.variants, RunReason.RESOLVED),
    )
    old = run.status
    changes: dict[str, object] = {
        "observed_generation": run.metadata.generation,
        "observed_retry": run.spec.retry.unscored_only,
    }
    if findings.resolved is not None and old.started_at is None:
        changes |= {
            "started_at": now.replace(microsecond=0),
            "resolved": findings.resolved,
            "evidence_prefix": run_prefix(storage_of(run), run.metadata.uid),
        }
    decision, plan = findings.decision, findings.plan
    if decision is not None and plan is not None and (figures or decision.finished):
        changes |= _figures(decision, plan, findings.report)
    if findings.report is not None and findings.report.place is not None:
        changes |= {"report": findings.report.place, "index": findings.report.index}
    ended = _set_end(writer, run, findings)
    if ended and old.completed_at is None:
        changes["completed_at"] = now.replace(microsecond=0)
    elif not ended:
        changes["completed_at"] = None
    _set_suspended(writer, run, findings, ended)
    _set_progressing(writer, findings, ended)
    _set_stalled(writer, findings, ended, now)
    _set_publishable(writer, run, findings)
    return old.model_copy(update={**changes, "conditions": writer.conditions})


class _Conditions:
    def __init__(self, run: EvaluationRun, now: datetime) -> None:
        self.conditions: list[Condition] = list(run.status.conditions)
        self._generation, self._now = run.metadata.generation, now

    def set(self, type_: RunCondition, status: bool, reason: RunReason, message: str = "") -> None:
        self.conditions, _ = with_condition(
            self.conditions, type_, status, reason, message, generation=self._generation, now=self._now
        )

    def find(self, type_: RunCondition) -> Condition | None:
        return find_condition(self.conditions, type_)


def _said(problem: Problem | None, fine: RunReason) -> tuple[RunReason, str]:
    return (fine, "") if problem is None else (problem.reason, problem.message)


def _set_end(writer: _Conditions, run: EvaluationRun, findings: Findings) -> bool:
    """Set Complete and Failed; whether the run has ended."""
    if findings.refused is not None:
        writer.set(RunCondition.COMPLETE, False, RunReason.ATTEMPTS_OUTSTANDING)
        writer.set(RunCondition.FAILED, True, findings.refused.reason, str(findings.refused))
        return True
    decision = findings.decision
    if decision is None or not decision.finished or findings.report_outstanding:
        words = outstanding_words(decision) if decision else ""
        writer.set(RunCondition.COMPLETE, False, RunReason.ATTEMPTS_OUTSTANDING, words)
        writer.set(RunCondition.FAILED, False, RunReason.NOT_FAILED)
        return False
    planned, recorded = len(decision.states), decision.scored
    words = f"{recorded} of {planned} attempts have a score"
    if recorded * 100 >= run.spec.min_coverage_percent * planned and recorded > 0:
        writer.set(RunCondition.COMPLETE, True, RunReason.ALL_RECORDED, words)
        writer.set(RunCondition.FAILED, False, RunReason.NOT_FAILED)
        return True
    reason = RunReason.COVERAGE_TOO_LOW if recorded else RunReason.NO_VALID_ATTEMPT
    words += f"; spec.minCoveragePercent is {run.spec.min_coverage_percent}. {lost_words(decision)}"
    writer.set(RunCondition.COMPLETE, False, RunReason.COVERAGE_TOO_LOW, words)
    writer.set(RunCondition.FAILED, True, reason, words)
    return True


def _set_suspended(writer: _Conditions, run: EvaluationRun, findings: Findings, ended: bool) -> None:
    brakes = findings.decision.brakes if findings.decision is not None else None
    found = suspension(run, brakes, ended=ended)
    if found is not None:
        writer.set(RunCondition.SUSPENDED, found.status, found.reason, found.message)


def _set_progressing(writer: _Conditions, findings: Findings, ended: bool) -> None:
    if ended:
        failed = writer.find(RunCondition.FAILED)
        lost = failed is not None and failed.status == "True"
        reason = RunReason(failed.reason) if failed and lost else RunReason.FINISHED
        writer.set(RunCondition.PROGRESSING, False, reason)
        return
    for problem, reason in (
        (findings.ledgers, RunReason.WAITING_FOR_LEDGERS),
        (findings.variants, RunReason.WAITING_FOR_VARIANTS),
    ):
        if problem is not None:
            writer.set(RunCondition.PROGRESSING, False, reason, problem.message)
            return
    suspended = writer.find(RunCondition.SUSPENDED)
    live = len(findings.decision.live) if findings.decision else 0
    if findings.hold is not None:
        writer.set(RunCondition.PROGRESSING, False, findings.hold.reason, findings.hold.message)
    elif suspended is not None and suspended.status == "True" and live == 0:
        writer.set(RunCondition.PROGRESSING, False, RunReason(suspended.reason), suspended.message)
    else:
        _set_running(writer, findings.decision)


def _set_running(writer: _Conditions, decision: Decision | None) -> None:
    if decision is None:
        writer.set(RunCondition.PROGRESSING, True, RunReason.RUNNING)
        return
    if decision.conflicts:
        name = min(decision.conflicts)
        words = f"Job {name} exists and does not belong to this run: delete it"
        writer.set(RunCondition.PROGRESSING, True, RunReason.RUNNING, words)
        return
    waiting = _all_wait(decision.live)
    if waiting is None or waiting.waiting is None:
        writer.set(RunCondition.PROGRESSING, True, RunReason.RUNNING, running_words(decision))
        return
    reason = _WAITING_REASONS[waiting.waiting.reason]
    writer.set(RunCondition.PROGRESSING, False, reason, waiting_words(decision.live, waiting))


def _all_wait(live: Sequence[LiveTry]) -> LiveTry | None:
    """A try that stands for all live ones, where each waits for something outside Assay; else None."""
    if not live or any(one.waiting is None or one.waiting.reason not in _WAITING_REASONS for one in live):
        return None
    return min(live, key=lambda one: one.name)


def _set_stalled(writer: _Conditions, findings: Findings, ended: bool, now: datetime) -> None:
    progressing = writer.find(RunCondition.PROGRESSING)
    stands = (
        not ended
        and progressing is not None
        and progressing.status == "False"
        # A run that a person has stopped does what it was told.
        and progressing.reason != RunReason.REQUESTED
        and now - progressing.last_transition_time >= timedelta(seconds=STALLED_SECONDS)
    )
    if stands and progressing is not None:
        words = f"nothing has moved for {STALLED_SECONDS // 60} minutes: {progressing.message}"
        writer.set(RunCondition.STALLED, True, RunReason.NO_PROGRESS, words)
    else:
        writer.set(RunCondition.STALLED, False, RunReason.MOVING)


def _set_publishable(writer: _Conditions, run: EvaluationRun, findings: Findings) -> None:
    """What the report says; before it is there, the message says what is known to be missing."""
    if findings.report is not None:
        reasons = findings.report.reasons_against
        reason = RunReason.PREREQUISITES_MISSING if reasons else RunReason.PREREQUISITES_MET
        writer.set(RunCondition.PUBLISHABLE, not reasons, reason, "; ".join(reasons))
        return
    missing = [] if run.spec.baseline else ["no baseline"]
    missing += [f"{NON_STANDARD}: {one}" for one in (findings.plan.deviations if findings.plan else ())]
    if findings.decision and findings.decision.pin_external:
        missing += ["PinExternal: the runner image carries no ledger pin of its own"]
    missing += ["the run has not ended"]
    writer.set(RunCondition.PUBLISHABLE, False, RunReason.PREREQUISITES_MISSING, "; ".join(missing))


def _figures(decision: Decision, plan: RunPlan, report: WrittenReport | None) -> dict[str, object]:
    found = decision.figures()
    outcomes = found.outcomes
    rows = vector(found, plan)
    if report is not None:
        rows = report.complete(rows)
    return {
        "attempts": count_attempts(decision),
        "outcomes": [OutcomeCount(outcome=one, tries=outcomes[one]) for one in OutcomeClass if outcomes[one]],
        "recent_failures": _failures(found.failed),
        "vector": rows,
        "scores": short_scores(rows),
    }


def count_attempts(decision: Decision) -> AttemptCounts:
    """Attempts by state; the states are disjoint and their sum is what was planned."""
    busy = {one.key for one in decision.live} | decision.settling
    live = sum(not isinstance(decision.states[key], Scored | Invalid) for key in busy)
    planned = len(decision.states)
    return AttemptCounts(
        planned=planned,
        waiting=planned - decision.ended - live,
        live=live,
        recorded=decision.scored,
        invalid=decision.ended - decision.scored,
    )


def vector(found: FiguresSoFar, plan: RunPlan) -> list[VectorRow]:
    """One row for each ledger and variant, in the order of the spec."""
    return [
        vector_row(name, variant, found.rows[name, variant], len(ledger.tasks), plan.repetitions[name])
        for name, ledger in plan.ledgers.items()
        for variant in plan.variants
    ]


def _failures(failed: Sequence[TryRecord]) -> list[Failure]:
    return [
        Failure(
            job_name=record.job_name,
            task=record.key.task,
            variant=record.key.variant,
            repetition=record.key.repetition,
            outcome=record.outcome,
            message=truncated(record.reason, FAILURE_MESSAGE_LIMIT),
            time=record.ended_at,
        )
        for record in failed
    ]
