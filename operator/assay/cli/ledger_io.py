"""What the `assay ledger` commands share: arguments, reading a ledger, printing a summary."""

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from assay.cli.output import InputError, print_json
from assay.core.ledger import LedgerFile, LedgerFileError, parse_ledger

_NAMED = 12
"""So many names are shown for eyes; JSON has them all."""

LedgerPath = Annotated[
    Path, typer.Argument(metavar="LEDGER", exists=True, dir_okay=False, help="A ledger file.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Bucket = Annotated[str, typer.Option(help="Bucket for ledger and task archives.")]
Endpoint = Annotated[
    str | None, typer.Option(help="URL of an S3-compatible store; absent = ASSAY_S3_ENDPOINT, else AWS.")
]
Region = Annotated[str | None, typer.Option(help="Region; absent = ASSAY_S3_REGION.")]


def read_ledger(path: Path) -> tuple[bytes, LedgerFile]:
    """The bytes and the ledger of a file. Raises InputError naming line and field."""
    content = path.read_bytes()
    try:
        return content, parse_ledger(content)
    except LedgerFileError as error:
        raise InputError(f"{path}: {error}") from error


def storage_environment(endpoint: str | None, region: str | None) -> dict[str, str]:
    """The process's environment with what the command line says laid over it."""
    given = {"ASSAY_S3_ENDPOINT": endpoint, "ASSAY_S3_REGION": region}
    return {**os.environ, **{name: value for name, value in given.items() if value}}


def print_summary(document: dict[str, Any], as_json: bool) -> None:
    """Keys and values, one a line and tab-separated, or JSON."""
    if as_json:
        print_json(document)
        return
    for key, value in document.items():
        typer.echo(f"{key}\t{_shown(value)}")


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_shown(count)}" for name, count in value.items()) or "—"
    if isinstance(value, list):
        more = f" and {len(value) - _NAMED} more" if len(value) > _NAMED else ""
        return " ".join(map(str, value[:_NAMED])) + more or "—"
    return "—" if value is None else str(value)
