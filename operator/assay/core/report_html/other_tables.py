"""Tables beside the vector: drift, exclusions, what a chart shows, and the lines that few readers need."""

from collections.abc import Sequence

from assay.api.report import Report
from assay.core.report_cells import UNKNOWN, Table, noise, percent, points
from assay.core.report_details import detail_tables
from assay.core.report_html.charts import Scored
from assay.core.report_html.source import Source
from assay.core.report_html.tables import Cell, Column, HtmlTable, figure, words
from assay.core.report_html.trade_offs import TradeOff

MAX_EXCLUSIONS = 300


def drift_table(source: Source) -> HtmlTable:
    """The baseline now against the reference run."""
    columns = (
        Column("Ledger", numeric=False),
        Column("Shift", "Baseline now minus baseline then, in points"),
        Column("Noise", "Standard error of that over repetitions, in points"),
        Column("p of shift", "Holm-adjusted over ledgers and both tests"),
        Column("p of any change", "Finds changes that cancel out, too"),
        Column("Would have found", "Smallest uniform drift found with 80 % power"),
        Column("Tasks"),
        Column("Why not", numeric=False),
    )
    rows = []
    for place, one in enumerate(source.report.drift):
        at = f"/drift/{place}"
        rows.append(
            [
                words(one.ledger),
                figure(source, points(one.shift), f"{at}/shift"),
                figure(source, noise(one.repeat_noise), f"{at}/repeatNoise"),
                figure(source, _p(one.adjusted_p_shift), f"{at}/adjustedPShift"),
                figure(source, _p(one.adjusted_p_any), f"{at}/adjustedPAny"),
                figure(source, points(one.detectable).lstrip("+"), f"{at}/detectable"),
                figure(source, str(one.tasks), f"{at}/tasks"),
                words(one.reason or ""),
            ]
        )
    return HtmlTable("drift", f"Drift of {source.report.baseline} since the reference run", columns, rows)


def _p(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.3g}"


def exclusions_table(source: Source) -> HtmlTable:
    """Attempts without a result, and tasks that the plan leaves out."""
    report = source.report
    by_plan = [
        [
            words(ledger.name),
            words("all"),
            words(task),
            words(UNKNOWN),
            words("by plan"),
            Cell(reason, f"/ledgers/{place}/excluded"),
        ]
        for place, ledger in enumerate(report.ledgers)
        for task, reason in ledger.excluded.items()
    ]
    lost = [
        [
            words(one.ledger),
            words(one.variant),
            words(one.task),
            figure(source, str(one.repetition), f"/exclusions/{place}/repetition"),
            words(one.outcome.value if one.outcome else UNKNOWN),
            Cell(one.reason, f"/exclusions/{place}/reason"),
        ]
        for place, one in enumerate(report.exclusions[:MAX_EXCLUSIONS])
    ]
    more = len(report.exclusions) - len(lost)
    return HtmlTable(
        "exclusions",
        "Attempts without a result, and tasks left out",
        [
            Column(title, numeric=title == "Repetition")
            for title in ("Ledger", "Variant", "Task", "Repetition", "Outcome", "Why")
        ],
        by_plan + lost,
        notes=[f"{more:,} more are in report.json and in the list of all tries."] if more > 0 else [],
        filterable=len(by_plan) + len(lost) > 8,
    )


def trade_off_table(
    source: Source, name: str, what: str, found: Sequence[Scored], trade: TradeOff
) -> HtmlTable:
    """The numbers of a trade-off chart."""
    rows = [
        [
            words(one.variant),
            figure(source, percent(one.value), one.value_at),
            _taken(source, trade, one),
            words("yes" if one.variant in trade.front else ""),
        ]
        for one in found
        if one.role != "sentinel"
    ]
    columns = (
        Column("Variant", numeric=False),
        Column(what),
        Column(trade.metric.unit),
        Column("On the front", "Nobody scores as high for less", numeric=False),
    )
    return HtmlTable(f"{name}-table", f"{what} against {trade.metric.name}", columns, rows)


def _taken(source: Source, trade: TradeOff, one: Scored) -> Cell:
    taken = trade.metric.of(one.usage)
    text = UNKNOWN if taken is None else trade.metric.text(taken)
    if not trade.metric.path:
        return Cell(text, value=taken)
    return figure(source, text, f"{one.usage_at}/{trade.metric.path}")


def groups_of_details(report: Report) -> list[HtmlTable]:
    """pass@k, scores by label and both lines of error, as the terminal shows them with --details."""
    found = []
    for ledger in report.ledgers:
        rows = [row for row in report.vector if row.ledger == ledger.name]
        found += [
            _plain(f"details-{ledger.name}-{number}", table)
            for number, table in enumerate(detail_tables(ledger, rows))
            if table.rows
        ]
    return found


def _plain(name: str, table: Table) -> HtmlTable:
    return HtmlTable(
        name,
        table.title,
        [Column(title.capitalize(), numeric=False) for title in table.columns],
        [[words(cell) for cell in row] for row in table.rows],
        notes=table.notes,
        filterable=len(table.rows) > 8,
    )
