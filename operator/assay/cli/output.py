"""How commands speak: results on standard output, everything else on standard error."""

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import typer
from pydantic import ValidationError
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

REFUSED = 1
"""Exit status when the input is refused or the work failed; 2 is a wrong command line."""

console = Console(stderr=True, soft_wrap=True, highlight=False)


class InputError(Exception):
    """A file that the user named cannot be used; the message names file, field and fix."""


_EXPECTED = (
    "assay.adapters.environment:BadSettings",
    "assay.adapters.git:GitError",
    "assay.adapters.image_builder:ImageBuildError",
    "assay.adapters.kube_errors:KubeError",
    "assay.adapters.kube_config:KubeConfigError",
    "assay.adapters.ledger_store:ArchiveMissingError",
    "assay.adapters.registry:RegistryError",
    "assay.adapters.s3_errors:StorageError",
    "assay.adapters.score_files:ScoreFileError",
    "assay.core.archive:ArchiveRefusedError",
    "assay.core.canonical:CanonicalError",
    "assay.core.ledger:LedgerFileError",
    "assay.core.runner_image:RunnerImageError",
    "assay.core.segments:JournalError",
)
"""Errors that a user can cause, by name: importing all of them would make every command slow."""


def _expected() -> tuple[type[Exception], ...]:
    """The expected errors of the modules that are loaded; no other can have been raised."""
    found: list[type[Exception]] = [InputError, OSError]
    for place in _EXPECTED:
        module, _, name = place.partition(":")
        if module in sys.modules:
            found.append(getattr(sys.modules[module], name))
    return tuple(found)


@contextmanager
def expected_errors() -> Iterator[None]:
    """Turns what a user can cause into one message and exit status 1; anything else is a bug and is shown."""
    try:
        yield
    except ExceptionGroup as group:
        known, unknown = group.split(_expected())
        if unknown or known is None:
            raise
        # What failed in parallel mostly failed in the same way: one of a kind tells it.
        fail(*(str(error) for error in {type(error): error for error in _leaves(known)}.values()))
    except Exception as error:
        if not isinstance(error, _expected()):
            raise
        fail(str(error))


def _leaves(group: ExceptionGroup[Exception]) -> Iterator[Exception]:
    for error in group.exceptions:
        if isinstance(error, ExceptionGroup):
            yield from _leaves(error)
        else:
            yield error


def explained(place: str, error: ValidationError) -> str:
    """Every field that a file or document has wrong, after its place."""
    problems = (
        f"{'.'.join(str(part) for part in problem['loc']) or 'the document'}: {problem['msg']}"
        for problem in error.errors(include_url=False, include_input=False)
    )
    return f"{place}: " + "; ".join(problems)


def fail(*messages: str) -> None:
    """Prints the messages and ends the command with status 1."""
    for message in messages:
        console.print(f"error: {message}", markup=False, style="red")
    raise typer.Exit(REFUSED)


def print_json(document: Any) -> None:
    """One JSON document, indented."""
    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Columns with a heading: aligned on a terminal, tab-separated elsewhere. `—` is what is unknown."""
    cells = [["—" if cell is None else str(cell) for cell in row] for row in rows]
    if not sys.stdout.isatty():
        for line in (columns, *cells):
            sys.stdout.write("\t".join(line) + "\n")
        return
    table = Table(*columns, box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for line in cells:
        table.add_row(*map(escape, line))
    Console(highlight=False).print(table)
