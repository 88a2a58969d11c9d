"""Prints reports: tables on a terminal, Markdown, JSON."""

import sys
from enum import StrEnum

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable

from assay.api.report import Report
from assay.core.report_cells import Table
from assay.core.report_markdown import markdown
from assay.core.report_tables import NOT_PUBLISHABLE, Document, document

WIDTH_WITHOUT_TERMINAL = 200


class Format(StrEnum):
    """How a report is printed."""

    TABLE = "table"
    MARKDOWN = "markdown"
    JSON = "json"


def print_report(report: Report, form: Format, *, details: bool = False) -> None:
    """The report on standard output."""
    if form is Format.JSON:
        sys.stdout.write(report_json(report))
    elif form is Format.MARKDOWN:
        sys.stdout.write(markdown(document(report, details=details)))
    else:
        print_document(document(report, details=details))


def report_json(report: Report) -> str:
    """The report as `report.json`."""
    return report.model_dump_json(by_alias=True, indent=2) + "\n"


def print_document(found: Document) -> None:
    """Tables as wide as the terminal."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=WIDTH_WITHOUT_TERMINAL)
    if found.verdict == NOT_PUBLISHABLE:
        console.print(f"[bold red]{NOT_PUBLISHABLE}[/]")
        for reason in found.reasons:
            console.print(f"  - {escape(reason)}")
    else:
        console.print(f"[bold green]{found.verdict}[/]")
    for table in found.tables:
        print_table(console, table)
    console.print()
    for note in found.notes:
        console.print(escape(note))


def print_table(console: Console, table: Table) -> None:
    """One table with its notes."""
    drawn = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for place, column in enumerate(table.columns):
        drawn.add_column(escape(column), overflow="fold", no_wrap=place < 2)
    for row in table.rows:
        drawn.add_row(*map(escape, row))
    console.print(f"\n[bold]{escape(table.title)}[/]")
    console.print(drawn)
    for note in table.notes:
        console.print(f"[dim]{escape(note)}[/]")
