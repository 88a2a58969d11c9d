"""The screen: rich where there is a terminal, plain lines where there is none (CI, a log file)."""

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.table import Table

from assay.api.evaluation_run import EvaluationRun
from assay.core import run_story as story

_PLAIN_WIDTH = 160


class Screen:
    """Where the demonstration tells what it does."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        terminal = sys.stdout.isatty()
        self._console = Console(width=None if terminal else _PLAIN_WIDTH, highlight=False, soft_wrap=True)
        self._last = ""

    @contextmanager
    def step(self, title: str) -> Iterator[None]:
        """A step with a spinner on a terminal; its name and seconds stay when it is done."""
        begun = time.monotonic()
        if self._console.is_terminal:
            with self._console.status(title):
                yield
        else:
            self._console.print(f"… {title}", markup=False)
            yield
        self._console.print(f"✓ {title} ({time.monotonic() - begun:.0f} s)", markup=False)

    def say(self, text: str = "") -> None:
        self._console.print(text, markup=False)

    def progress(self, run: EvaluationRun) -> None:
        """A line for each change of the run that a person would notice."""
        line = story.progress_line(run)
        if line != self._last:
            self._last = line
            self._console.print(f"  {self._clock()}  {line}", markup=False)

    def attempt(self, text: str) -> None:
        """A line about one attempt."""
        self._console.print(f"  {self._clock()}    {text}", markup=False)

    def table(self, content: story.Table, title: str = "") -> None:
        headings, rows = content
        table = Table(title=title or None, title_justify="left")
        for index, heading in enumerate(headings):
            table.add_column(heading, justify="left" if index == 0 else "right", no_wrap=index == 0)
        for row in rows:
            table.add_row(*row)
        self._console.print(table)

    def lines(self, texts: Sequence[str]) -> None:
        for text in texts:
            self._console.print(f"  {text}", markup=False)

    def _clock(self) -> str:
        minutes, seconds = divmod(int(time.monotonic() - self._started), 60)
        return f"{minutes:02d}:{seconds:02d}"
