"""Tables of what was before: the order of freezing and first call, the reference run, earlier runs."""

from datetime import datetime

from assay.core.report_cells import UNKNOWN, percent
from assay.core.report_html.source import Source
from assay.core.report_html.tables import Cell, Column, HtmlTable, figure, words


def freeze_table(source: Source) -> HtmlTable:
    """Whether each ledger was frozen and on record before the first model call."""
    columns = (
        Column("Ledger", numeric=False),
        Column("Run", numeric=False),
        Column("Frozen", "When the operator first verified the ledger", numeric=False),
        Column("On record", "When the first segment of the run's journal was written", numeric=False),
        Column("First call", "When the first model call of any try began", numeric=False),
        Column("Problems", numeric=False),
    )
    table = [
        [
            words(ledger.name),
            words(one.run),
            _time(one.frozen_at, f"/ledgers/{place}/freeze/{number}/frozenAt"),
            _time(one.recorded_at, f"/ledgers/{place}/freeze/{number}/recordedAt"),
            _time(one.first_call_at, f"/ledgers/{place}/freeze/{number}/firstCallAt"),
            words("; ".join(one.problems) or "none"),
        ]
        for place, ledger in enumerate(source.report.ledgers)
        for number, one in enumerate(ledger.freeze)
    ]
    return HtmlTable("freeze", "Ledger frozen before the first call", columns, table)


def references_table(source: Source) -> HtmlTable:
    """What the baseline is tested against for drift."""
    columns = (
        Column("Ledger", numeric=False),
        Column("Reference run", numeric=False),
        Column("Ended", numeric=False),
        Column("Digest of its attempts.jsonl", numeric=False),
        Column("Why not used", numeric=False),
    )
    table = [
        [
            words(one.ledger),
            words("this run: later ones are tested against it" if one.is_this_run else one.run or UNKNOWN),
            _time(one.completed_at, f"/references/{place}/completedAt"),
            _digest(one.attempts, f"/references/{place}/attempts"),
            words(one.reason or ""),
        ]
        for place, one in enumerate(source.report.references)
    ]
    return HtmlTable("references", "Reference of the baseline's drift", columns, table)


def earlier_runs_table(source: Source) -> HtmlTable:
    """Every other run of these variants, so that the best of many cannot pose as the only one."""
    columns = (
        Column("Variant", numeric=False),
        Column("Ledger", numeric=False),
        Column("Run", numeric=False),
        Column("Started", numeric=False),
        Column("Score", "Strict score of that run"),
        Column("Coverage", "Attempts with a result, of all planned"),
        Column("Verdict", numeric=False),
        Column("Digest of its report", numeric=False),
        Column("Why no score", numeric=False),
    )
    table = []
    for place, one in enumerate(source.report.earlier_runs or ()):
        at = f"/earlierRuns/{place}"
        planned = UNKNOWN if one.attempts_planned is None else f"{one.attempts_valid}/{one.attempts_planned}"
        table.append(
            [
                words(one.variant),
                words(one.ledger),
                words(one.run),
                _time(one.started_at, f"{at}/startedAt"),
                figure(source, percent(one.strict), f"{at}/strict"),
                Cell(planned, f"{at}/attemptsValid", one.attempts_valid),
                words(one.verdict or UNKNOWN),
                _digest(one.report, f"{at}/report"),
                words(one.reason or ""),
            ]
        )
    return HtmlTable(
        "earlier-runs", "Other runs of these variants", columns, table, filterable=len(table) > 8
    )


def _time(when: datetime | None, pointer: str) -> Cell:
    return words(UNKNOWN) if when is None else Cell(f"{when:%Y-%m-%d %H:%M:%S}", pointer)


def _digest(digest: str | None, pointer: str) -> Cell:
    return words(UNKNOWN) if digest is None else Cell(digest, pointer)
