"""How commands speak: results on standard output, everything else on standard error."""

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import typer
from pydantic import ValidationError
from rich.console import Console

from assay.adapters.environment import BadSettings
from assay.adapters.git import GitError
from assay.adapters.image_builder import ImageBuildError
from assay.adapters.ledger_store import ArchiveMissingError
from assay.adapters.registry import RegistryError
from assay.adapters.s3 import StorageError
from assay.adapters.score_files import ScoreFileError
from assay.core.archive import ArchiveRefusedError
from assay.core.canonical import CanonicalError
from assay.core.ledger import LedgerFileError
from assay.core.runner_image import RunnerImageError
from assay.core.segments import JournalError

REFUSED = 1
"""Exit status when the input is refused or the work failed; 2 is a wrong command line."""

console = Console(stderr=True, soft_wrap=True, highlight=False)


class InputError(Exception):
    """A file that the user named cannot be used; the message names file, field and fix."""


_EXPECTED = (
    InputError,
    ArchiveMissingError,
    ArchiveRefusedError,
    BadSettings,
    CanonicalError,
    GitError,
    ImageBuildError,
    JournalError,
    LedgerFileError,
    OSError,
    RegistryError,
    RunnerImageError,
    ScoreFileError,
    StorageError,
)


@contextmanager
def expected_errors() -> Iterator[None]:
    """Turns what a user can cause into one message and exit status 1; anything else is a bug and is shown."""
    try:
        yield
    except ExceptionGroup as group:
        known, unknown = group.split(_EXPECTED)
        if unknown or known is None:
            raise
        # What failed in parallel mostly failed in the same way: one of a kind tells it.
        fail(*(str(error) for error in {type(error): error for error in _leaves(known)}.values()))
    except _EXPECTED as error:
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
    """Tab-separated columns with a heading: for eyes and for `cut` alike. `—` is what is unknown."""
    for row in (columns, *rows):
        sys.stdout.write("\t".join("—" if cell is None else str(cell) for cell in row) + "\n")
