"""Tables as the page shows them: each number knows its place in report.json."""

from collections.abc import Sequence
from dataclasses import dataclass

from assay.core.report_html.source import Source


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its heading, what it means in a sentence, and whether it holds numbers."""

    title: str
    meaning: str = ""
    numeric: bool = True


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell. `pointer` is its place in report.json, `value` what is sorted by (and equals that place)."""

    text: str
    pointer: str = ""
    value: float | int | str | None = None
    note: str = ""
    tone: str = ""


@dataclass(frozen=True, slots=True)
class HtmlTable:
    """A table; the first cell of each row is its heading. `name` is an identifier of the page."""

    name: str
    caption: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    notes: Sequence[str] = ()
    filterable: bool = False


def figure(source: Source, text: str, pointer: str, note: str = "", tone: str = "") -> Cell:
    """The cell of a number of the report."""
    value = source.at(pointer)
    if isinstance(value, str):
        # Costs are decimals, which JSON holds as text.
        value = float(value)
    return Cell(text, pointer, value, note, tone)


def words(text: str, note: str = "", tone: str = "") -> Cell:
    """A cell of text."""
    return Cell(text, value=text, note=note, tone=tone)
