"""What a report says of other runs, of the reference for drift, and of what holds the run together."""

from collections.abc import Iterator, Sequence

from assay.api.ledger_history import DriftReference, EarlierRun
from assay.api.report import Report
from assay.core.report_cells import UNKNOWN, Table, percent, short_digest

MAX_EARLIER_RUNS = 50


def earlier_runs(found: Sequence[EarlierRun]) -> Table:
    """Every other run of the variants: who ran often shows it."""
    shown = found[:MAX_EARLIER_RUNS]
    runs = len({one.run_uid for one in found})
    return Table(
        f"{runs} other run{'s' if runs != 1 else ''} of these variants on these ledgers",
        ("LEDGER", "VARIANT", "RUN", "STARTED", "SCORE", "COVERAGE", "VERDICT", "REPORT"),
        tuple(
            (
                one.ledger,
                one.variant,
                one.run,
                one.started_at.isoformat(timespec="seconds"),
                percent(one.strict),
                f"{one.attempts_valid}/{one.attempts_planned}" if one.attempts_planned else UNKNOWN,
                one.verdict or UNKNOWN,
                short_digest(one.report) if one.report else one.reason or UNKNOWN,
            )
            for one in shown
        ),
        (f"{len(found) - len(shown)} more are in the JSON.",) if len(found) > len(shown) else (),
    )


def run_notes(report: Report) -> Iterator[str]:
    """References, whether anybody looked for other runs, journal and images."""
    for one in report.references:
        yield f"{one.ledger}: {_reference(one)}."
    if report.earlier_runs is None:
        yield "Whether these variants had other runs on these ledgers is not known: no run record says it."
    elif not report.earlier_runs:
        yield "No other run of these variants on these ledgers is on record."
    for run in report.runs:
        if run.journal_head is not None:
            head = run.journal_head
            yield f"{run.name}: the journal ends in segment {head.name}, {short_digest(head.digest)}."
        if run.images:
            images = ", ".join(f"{name} {image}" for name, image in sorted(run.images.items()))
            yield f"{run.name}: evaluated by {images}."


def _reference(one: DriftReference) -> str:
    if one.is_this_run:
        return "drift: this is the first complete run, so its baseline is the reference for later ones"
    if one.reason is not None:
        return f"drift: no reference: {one.reason}"
    ended = one.completed_at.isoformat(timespec="seconds") if one.completed_at else UNKNOWN
    records = short_digest(one.attempts) if one.attempts else UNKNOWN
    return f"drift: the reference is run {one.run} ({one.run_uid}), ended {ended}, records {records}"
