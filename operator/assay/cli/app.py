"""The command line: one group a noun."""

from importlib.metadata import version as installed_version
from typing import Annotated

import typer

from assay.cli import import_job, journal, ledger, prices, score

app = typer.Typer(
    name="assay",
    help="Evaluates coding agents on Kubernetes so that somebody else can repeat the measurement.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(ledger.app)
app.add_typer(import_job.app)
app.add_typer(journal.app)
app.add_typer(prices.app)
app.command("score")(score.score)
app.command("compare")(score.compare_reports)
app.command("suites")(score.suites)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"assay {installed_version('assay')}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    """Evaluates coding agents on Kubernetes so that somebody else can repeat the measurement."""


def main() -> None:
    """Entry point of `assay` and `kubectl assay`."""
    app()
