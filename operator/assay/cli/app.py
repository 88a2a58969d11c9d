"""The command line: what there is, and where it is. A command is imported when it is used."""

from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import version as installed_version
from types import MappingProxyType
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

COMMANDS: Mapping[str, str] = MappingProxyType(
    {
        "list": "assay.cli.run_views:list_runs",
        "show": "assay.cli.run_views:show",
        "watch": "assay.cli.run_watch:watch",
        "explain": "assay.cli.run_explain:explain",
        "logs": "assay.cli.run_logs:logs",
        "trajectory": "assay.cli.run_trajectory:trajectory",
        "results": "assay.cli.run_results:results",
        "dry-run": "assay.cli.dry_run:dry_run",
        "suspend": "assay.cli.run_actions:suspend",
        "resume": "assay.cli.run_actions:resume",
        "cancel": "assay.cli.run_actions:cancel",
        "report": "assay.cli.report:app",
        "score": "assay.cli.score:score",
        "compare": "assay.cli.score:compare_reports",
        "suites": "assay.cli.score:suites",
        "ledger": "assay.cli.ledger:app",
        "import": "assay.cli.import_job:app",
        "prices": "assay.cli.prices:app",
        "journal": "assay.cli.journal:app",
    }
)
"""Names of the commands, in the order of the help, and what implements each: a function, or a group."""


class _Commands(TyperGroup):
    """Imports what is used: `assay show` must not wait for what only `assay score` needs."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        place = COMMANDS.get(cmd_name)
        if place is None:
            return None
        module, _, name = place.partition(":")
        return _command(cmd_name, getattr(import_module(module), name))


def _command(name: str, found: Any) -> Any:
    if isinstance(found, typer.Typer):
        return typer.main.get_command(found)
    single = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    single.command(name)(found)
    return typer.main.get_command(single)


app = typer.Typer(
    name="assay",
    cls=_Commands,
    help="Evaluates coding agents on Kubernetes so that somebody else can repeat the measurement.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


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
