"""From a ledger's list of runs: the reference for drift, and every other run of a variant. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from assay.api.attempt_record import RunRecord
from assay.api.journal import LedgerRun
from assay.api.ledger_history import DriftReference, EarlierRun, LedgerResult, ResultFile, VariantResult
from assay.api.report import Report

NOT_ENDED = "it has no report: it has not ended, or was deleted before it did"
NO_REFERENCE = (
    "no run on this ledger has a complete baseline and followed the plan, and neither has this one: "
    "nothing to test it against"
)


@dataclass(frozen=True, slots=True)
class LedgerHistory:
    """The list of one ledger: runs that began, and reports of those that ended."""

    runs: Sequence[LedgerRun]
    results: Sequence[LedgerResult]


def reference_of(
    run: RunRecord, ledger: str, history: LedgerHistory, complete: Set[str]
) -> tuple[DriftReference, LedgerResult | None]:
    """The reference for a ledger of the run, and the entry of the run that it comes from, if it is another.

    It is the first run to end with a valid result of every attempt of this very baseline, under the plan.
    `complete` are the ledgers on which this run's baseline is complete.
    """
    fingerprint = run.variants.get(run.baseline or "")
    known = [
        one
        for one in history.results
        if one.follows_plan
        and (mine := one.baseline_result) is not None
        and mine.complete
        and mine.fingerprint == fingerprint
    ]
    first = min(known, key=lambda one: (one.completed_at, one.run_uid, one.revision), default=None)
    if first is not None and first.run_uid != run.uid:
        return (
            DriftReference(
                ledger=ledger,
                is_this_run=False,
                run=first.run_name,
                run_uid=first.run_uid,
                completed_at=first.completed_at,
                attempts=first.attempts.digest,
            ),
            first,
        )
    if first is not None or (follows_plan(run) and ledger in complete):
        return DriftReference(ledger=ledger, is_this_run=True, run=run.name, run_uid=run.uid), None
    return DriftReference(ledger=ledger, is_this_run=False, reason=NO_REFERENCE), None


def follows_plan(run: RunRecord) -> bool:
    """Whether the run may be a reference for others."""
    return not run.deviations and not run.reused_results


def earlier_runs(run: RunRecord, ledger: str, history: LedgerHistory) -> Iterator[EarlierRun]:
    """Every other run of these variants on a ledger, by start: the best of many cannot pose as the only."""
    newest: dict[str, LedgerResult] = {}
    for result in sorted(history.results, key=lambda one: one.revision):
        newest[result.run_uid] = result
    for other in sorted(history.runs, key=lambda one: (one.started_at, one.run_uid)):
        if other.run_uid == run.uid:
            continue
        theirs = {one.fingerprint for one in other.variants}
        for variant, fingerprint in sorted(run.variants.items()):
            if fingerprint in theirs:
                yield _earlier(ledger, variant, fingerprint, other, newest.get(other.run_uid))


def _earlier(
    ledger: str, variant: str, fingerprint: str, other: LedgerRun, result: LedgerResult | None
) -> EarlierRun:
    begun = EarlierRun(
        ledger=ledger,
        variant=variant,
        run=other.run_name,
        run_uid=other.run_uid,
        started_at=other.started_at,
        reason=NOT_ENDED,
    )
    found = next((one for one in result.variants if one.fingerprint == fingerprint), None) if result else None
    if result is None or found is None:
        return begun
    return begun.model_copy(
        update={
            "completed_at": result.completed_at,
            "revision": result.revision,
            "strict": found.strict,
            "attempts_planned": found.attempts_planned,
            "attempts_valid": found.attempts_valid,
            "verdict": result.verdict,
            "report": result.report.digest,
            "reason": None,
        }
    )


@dataclass(frozen=True, slots=True)
class StoredReport:
    """A report as it lies in S3, with the attempt records that it was made of."""

    report: Report
    namespace: str
    revision: int
    attempts_file: ResultFile
    report_file: ResultFile


def results_of(run: RunRecord, stored: StoredReport) -> Iterator[LedgerResult]:
    """The run's entry among the results of each of its ledgers."""
    for facts in run.ledgers:
        rows = [row for row in stored.report.vector if row.ledger == facts.name]
        if not rows or run.completed_at is None:
            continue
        yield LedgerResult(
            run_uid=run.uid,
            run_name=run.name,
            namespace=stored.namespace,
            ledger_digest=facts.digest,
            revision=stored.revision,
            completed_at=run.completed_at,
            follows_plan=follows_plan(run),
            baseline=run.baseline,
            variants=[
                VariantResult(
                    variant=row.variant,
                    fingerprint=run.variants[row.variant],
                    strict=row.score.strict,
                    attempts_planned=row.score.attempts_planned,
                    attempts_valid=row.score.attempts_valid,
                )
                for row in rows
            ],
            verdict=stored.report.verdict,
            attempts=stored.attempts_file,
            report=stored.report_file,
        )


def all_earlier(run: RunRecord, histories: Mapping[str, LedgerHistory]) -> Iterable[EarlierRun]:
    """Every other run of the run's variants, ledger by ledger."""
    for facts in run.ledgers:
        if facts.name in histories:
            yield from earlier_runs(run, facts.name, histories[facts.name])
