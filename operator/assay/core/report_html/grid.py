"""The grid of tasks and variants: what became of every repetition, sorted by cluster."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from assay.api.report import LedgerEntry, Report, Row
from assay.core.report_html.source import pointer
from assay.core.report_html.tries import Tries

REWARD, RETAINED, REPETITION = 7, 5, 3
MAX_MARKS = 10
"""Repetitions that are drawn one by one; more are told by their number."""


@dataclass(frozen=True, slots=True)
class GridCell:
    """A task under a variant: `passed` of `planned` as text, a mark for each repetition, its tries' rows."""

    text: str
    value: float | None
    marks: str
    pointer: str
    tries: str
    flagged: bool
    lost: bool


@dataclass(frozen=True, slots=True)
class GridRow:
    """A task. `differs` says that the variants' rewards are not all the same."""

    task: str
    cluster: str
    short_cluster: str
    new_cluster: bool
    cells: Sequence[GridCell | None]
    differs: bool


@dataclass(frozen=True, slots=True)
class Grid:
    """The grid of a ledger."""

    ledger: str
    variants: Sequence[str]
    rows: Sequence[GridRow]
    repetitions: int


def grid(report: Report, ledger: LedgerEntry, tries: Tries) -> Grid:
    """The grid of one ledger: all its scored tasks, all its variants in the report's order."""
    places = [place for place, row in enumerate(report.vector) if row.ledger == ledger.name]
    tasks = sorted(
        ledger.task_clusters, key=lambda task: (_natural(ledger.task_clusters[task]), _natural(task))
    )
    rows, before = [], None
    for task in tasks:
        cluster = ledger.task_clusters[task]
        cells = [_cell(report.vector[place], place, task, ledger.repetitions, tries) for place in places]
        rows.append(
            GridRow(
                task,
                cluster,
                _short(cluster),
                cluster != before,
                cells,
                len({cell.value for cell in cells}) > 1,
            )
        )
        before = cluster
    return Grid(ledger.name, [report.vector[place].variant for place in places], rows, ledger.repetitions)


def _short(cluster: str) -> str:
    """A cluster's name with commits as short as people write them."""
    return re.sub(r"[0-9a-f]{20,}", lambda found: f"{found[0][:10]}…", cluster)


def _natural(text: str) -> list[tuple[int, str]]:
    """A key by which `repo-9` comes before `repo-10`."""
    return [(int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"(\d+)", text)]


def _cell(row: Row, place: int, task: str, repetitions: int, tries: Tries) -> GridCell:
    rewards = row.task_rewards.get(task, [])
    found = tries.cells.get((row.ledger, task, row.variant), [])
    return GridCell(
        text=_text(rewards, repetitions),
        value=sum(rewards) / repetitions if repetitions else None,
        marks=_marks(rewards, repetitions, found, tries),
        pointer=pointer("vector", place, "taskRewards", task) if task in row.task_rewards else "",
        tries=",".join(map(str, found)),
        flagged=any(tries.flagged(one) for one in found),
        lost=len(rewards) < repetitions,
    )


def _text(rewards: Sequence[float], repetitions: int) -> str:
    if all(reward in (0, 1) for reward in rewards):
        return f"{int(sum(rewards))}/{repetitions}"
    return f"{sum(rewards):.2f}/{repetitions}"


def _marks(rewards: Sequence[float], repetitions: int, found: Sequence[int], tries: Tries) -> str:
    """A letter for each repetition: p passed, h in part, f failed, n no result; flagged ones in capitals."""
    if repetitions > MAX_MARKS:
        return ""
    if not found:
        return "".join(map(_mark, sorted(rewards, reverse=True))) + "n" * (repetitions - len(rewards))
    by_repetition = {
        tries.rows[one][REPETITION]: _tried(tries, one) for one in found if tries.rows[one][RETAINED]
    }
    return "".join(by_repetition.get(repetition, "n") for repetition in range(repetitions))


def _tried(tries: Tries, row: int) -> str:
    mark = _mark(tries.rows[row][REWARD] or 0.0)
    return mark.upper() if tries.flagged(row) else mark


def _mark(reward: float) -> str:
    return "p" if reward >= 1 else ("h" if reward > 0 else "f")
