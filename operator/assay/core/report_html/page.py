"""Makes the HTML report: one file that needs no network, and that holds what it says up to the evidence."""

import base64
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from assay.api.attempt_record import AttemptRecord
from assay.api.report import IndexRow, LedgerEntry, Report, Row
from assay.core.report_html import charts
from assay.core.report_html.answer import Answer, answers, best_score, no_answer
from assay.core.report_html.drawing import Chart
from assay.core.report_html.fingerprint import fingerprint
from assay.core.report_html.grid import Grid, grid
from assay.core.report_html.history_tables import earlier_runs_table, freeze_table, references_table
from assay.core.report_html.other_tables import (
    drift_table,
    exclusions_table,
    groups_of_details,
    trade_off_table,
)
from assay.core.report_html.outcomes_chart import outcomes_chart
from assay.core.report_html.source import Source
from assay.core.report_html.tables import HtmlTable
from assay.core.report_html.trade_offs import METRICS, Metric, trade_off
from assay.core.report_html.tries import MAX_NAME, Tries, script_json
from assay.core.report_html.vector_tables import (
    index_table,
    outcomes_table,
    rates_table,
    scoreboard,
    scores_table,
    usage_table,
)
from assay.core.terminal_text import one_line, printable

SHOWN_REASONS = 3
"""Reasons against publication that the first screen lists; the others follow on a click."""


@dataclass(frozen=True, slots=True)
class Tradeoffs:
    """A chart of score against something, and the table beside it."""

    chart: Chart | None
    table: HtmlTable
    missing: str


@dataclass(frozen=True, slots=True)
class Scope:
    """Everything about one ledger, or about the index (`ledger` is None)."""

    name: str
    title: str
    ledger: LedgerEntry | None
    scoreboard: HtmlTable
    scores: Chart | None
    shifts: Chart | None
    answers: list[Answer]
    tables: list[HtmlTable]
    tradeoffs: list[Tradeoffs]
    grid: Grid | None


def report_page(source: Source, records: Iterable[AttemptRecord]) -> str:
    """The page of a report. `records` are those that it was made of; without them it leads to no evidence."""
    report = source.report
    tries = Tries(report)
    tries.add_all(records)
    found = answers(report)
    scopes = list(_scopes(source, tries, found))
    return render(
        "report.html.j2",
        report=report,
        source=source,
        title=_title(report),
        shown_reasons=SHOWN_REASONS,
        answers=found,
        first=_first(found, scopes),
        no_answer=no_answer(report),
        best_score=best_score(report),
        scopes=scopes,
        rates=rates_table(source),
        outcomes=outcomes_table(source),
        outcomes_chart=outcomes_chart("chart-outcomes", report),
        drift=drift_table(source) if report.drift else None,
        references=references_table(source),
        earlier_runs=earlier_runs_table(source),
        freeze=freeze_table(source),
        exclusions=exclusions_table(source),
        details=groups_of_details(report),
        fingerprint=fingerprint(source, tries),
        tries=tries,
        data=Markup(tries.as_json()),  # noqa: S704  escaped for a script element
        files_data=Markup(_files(source)),  # noqa: S704  likewise
    )


def _files(source: Source) -> str:
    """What the script needs to lead from a number to its files and tries."""
    report = source.report
    return script_json(
        {
            "report": {"address": printable(source.file.address), "digest": source.file.digest},
            "attempts": [
                {"address": printable(one.address), "digest": one.digest} for one in source.attempts
            ],
            "vector": [
                {"variant": one_line(row.variant, MAX_NAME), "ledger": row.ledger} for row in report.vector
            ],
            "index": [one_line(row.variant, MAX_NAME) for row in report.index],
        }
    )


def _title(report: Report) -> str:
    names = [run.name for run in report.runs] or sorted({row.run for row in report.vector})
    return ", ".join(names)


def _first(found: list[Answer], scopes: list[Scope]) -> list[Answer]:
    """The answers of the first screen: one a scope."""
    by_scope: dict[str, Answer] = {}
    for one in found:
        by_scope.setdefault(one.scope, one)
    return list(by_scope.values())


def _scopes(source: Source, tries: Tries, found: list[Answer]) -> Iterable[Scope]:
    report = source.report
    if report.index:
        yield _scope(source, tries, found, None)
    for ledger in report.ledgers:
        yield _scope(source, tries, found, ledger)


def _scope(source: Source, tries: Tries, found: list[Answer], ledger: LedgerEntry | None) -> Scope:
    report = source.report
    what = "Score" if ledger else "Index"
    name = ledger.name if ledger else "index"
    rows: Iterable[tuple[int, Row | IndexRow]] = enumerate(report.index)
    if ledger is not None:
        rows = ((place, row) for place, row in enumerate(report.vector) if row.ledger == ledger.name)
    scored = charts.scored(rows)
    title = f"Ledger {ledger.name}" if ledger else f"Index {report.suite}"
    return Scope(
        name=name,
        title=title,
        ledger=ledger,
        scoreboard=scoreboard(source, ledger),
        scores=charts.scores_chart(f"chart-{name}-scores", what, scored),
        shifts=charts.shifts_chart(f"chart-{name}-shifts", title, report.baseline or "", scored),
        answers=[one for one in found if one.scope == (ledger.name if ledger else title)],
        tables=[scores_table(source, ledger), usage_table(source, ledger)]
        if ledger
        else [index_table(source)],
        tradeoffs=[_tradeoffs(source, name, what, metric, scored) for metric in METRICS],
        grid=grid(report, ledger, tries) if ledger else None,
    )


def _tradeoffs(
    source: Source, name: str, what: str, metric: Metric, scored: list[charts.Scored]
) -> Tradeoffs:
    chart_name = f"chart-{name}-{metric.name}"
    found = trade_off(chart_name, what, metric, scored)
    missing = f"No {metric.name} is known of {', '.join(found.missing)}." if found.missing else ""
    return Tradeoffs(found.chart, trade_off_table(source, chart_name, what, scored, found), missing)


def render(template: str, **context: Any) -> str:
    """A template with the page's style and script, and a policy that allows these two alone."""
    style, script = _asset("page.css"), _asset("page.js")
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    return (
        _environment()
        .get_template(template)
        .render(
            style=Markup(style),  # noqa: S704  our own file
            script=Markup(script),  # noqa: S704  our own file
            policy=policy,
            **context,
        )
    )


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("assay.core.report_html"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_visible,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _visible(value: Any) -> Any:
    """Text from outside can neither reorder what is read nor hide in it; markup of our own stays."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return printable(value)
    return value


@cache
def _asset(name: str) -> str:
    return files("assay.core.report_html").joinpath("templates", name).read_text()


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
