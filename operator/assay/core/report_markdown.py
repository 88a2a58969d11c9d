"""A report as Markdown."""

from collections.abc import Iterable, Iterator

from assay.core.report_cells import Table
from assay.core.report_tables import NOT_PUBLISHABLE, Document


def markdown(document: Document) -> str:
    """The document; what may not be published says so in its first line."""
    return "\n".join(_lines(document)) + "\n"


def _lines(document: Document) -> Iterator[str]:
    if document.verdict == NOT_PUBLISHABLE:
        yield f"**{NOT_PUBLISHABLE}**"
        yield ""
        yield from (f"- {_escaped(reason)}" for reason in document.reasons)
        yield ""
    for table in document.tables:
        yield from _table(table)
    yield from _list(document.notes)


def _table(table: Table) -> Iterator[str]:
    yield f"### {_escaped(table.title)}"
    yield ""
    yield _row(table.columns)
    yield _row("---" for _ in table.columns)
    yield from (_row(row) for row in table.rows)
    yield ""
    if table.notes:
        yield from _list(table.notes)
        yield ""


def _list(notes: Iterable[str]) -> Iterator[str]:
    yield from (f"- {_escaped(note)}" for note in notes)


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(_escaped(cell) for cell in cells)} |"


def _escaped(text: str) -> str:
    """What comes from records must neither break a table nor become markup."""
    one_line = " ".join(text.split())
    for character in "\\`*_[]<>|":
        one_line = one_line.replace(character, f"\\{character}")
    return one_line
