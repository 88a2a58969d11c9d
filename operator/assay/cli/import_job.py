"""`assay import`: attempt records from what other harnesses left."""

from pathlib import Path
from typing import Annotated

import typer

from assay.adapters.harbor_job import read_job, unfinished_trials
from assay.api.attempt_record import AttemptRecord
from assay.cli.output import InputError, console, expected_errors
from assay.core.harbor_import import HarborImportError, import_trials
from assay.core.ledger import LedgerFileError, parse_ledger
from assay.core.names import slug

app = typer.Typer(
    name="import",
    help="Make attempt records of what other harnesses left, to score it.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)


@app.callback()
def _group() -> None:
    """Make attempt records of what other harnesses left, to score it."""


@app.command()
def harbor(
    job: Annotated[
        Path,
        typer.Argument(
            metavar="JOBDIR", exists=True, file_okay=False, help="Result folder of one Harbor job."
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the records are written.")] = Path(
        "attempts.jsonl"
    ),
    ledger: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="Ledger of the job's tasks: gives clusters and labels, and checks the tasks' digests.",
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Name of the ledger in the records; absent = the job's name.")
    ] = None,
    without_unfinished: Annotated[
        bool, typer.Option("--without-unfinished", help="Leave out trials that have not ended.")
    ] = False,
) -> None:
    """Import the trials of a Harbor job. What Harbor does not record stays unknown.

    Cache writes, reasoning tokens and single calls are not in Harbor's results, so imported attempts have
    no cost.
    Imported results are never publishable.

    Example:

        assay import harbor jobs/2026-11-30__12-00-00 -o attempts.jsonl
    """
    with expected_errors():
        left_out = unfinished_trials(job)
        if left_out and not without_unfinished:
            raise InputError(
                f"{left_out[0]}: the trial has no result.json, so it has not ended ({len(left_out)} in all): "
                "resume the job, or leave them out with --without-unfinished"
            )
        try:
            file = parse_ledger(ledger.read_bytes()) if ledger else None
            records = import_trials(
                read_job(job), job.resolve().name, name or slug(job.resolve().name, 60), file
            )
        except LedgerFileError as error:
            raise InputError(f"{ledger}: {error}") from error
        except HarborImportError as error:
            raise InputError(str(error)) from error
        _write(records, output)
    console.print(f"{len(records)} attempts in {output}", markup=False)
    if left_out:
        console.print(f"{len(left_out)} trials that have not ended are left out", markup=False)


def _write(records: list[AttemptRecord], output: Path) -> None:
    output.parent.mkdir(parents=True, exist_ok=True)
    with output.open("w", encoding="utf-8") as file:
        for record in records:
            file.write(record.model_dump_json(by_alias=True, exclude_none=True) + "\n")
