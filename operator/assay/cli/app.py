"""The command line: what there is, and where it is. A command is imported when it is used."""

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup


class Entry(NamedTuple):
    """A command: `module:attribute` of its function or group, and what the help says of it in one line."""

    place: str
    summary: str


COMMANDS: Mapping[str, Entry] = MappingProxyType(
    {
        "list": Entry(
            "assay.cli.run_views:list_runs",
            "List the runs, newest first: how far each is, and what it is doing or waiting for.",
        ),
        "show": Entry(
            "assay.cli.run_views:show",
            "Show one run: its vector, what it was made with, what failed, where its evidence lies.",
        ),
        "watch": Entry(
            "assay.cli.run_watch:watch",
            "Follow a run until it ends: a progress bar and the vector as it grows, or lines "
            "without a terminal.",
        ),
        "explain": Entry(
            "assay.cli.run_explain:explain",
            "Tell of each try of an attempt: its class and why, its pod, where its evidence lies, "
            "what followed.",
        ),
        "logs": Entry(
            "assay.cli.run_logs:logs",
            "Print the log of a try: from its pod while it is live, from its evidence in S3 afterwards.",
        ),
        "trajectory": Entry(
            "assay.cli.run_trajectory:trajectory",
            "Print an agent's trajectory: what it was told, said, did and saw. `--json` prints "
            "the stored file.",
        ),
        "results": Entry(
            "assay.cli.run_results:results",
            "Print the result of every attempt of a run, from its journal; also of a run that still goes on.",
        ),
        "dry-run": Entry(
            "assay.cli.dry_run:dry_run",
            "Resolve a manifest against the cluster and create nothing: its attempts, resources, "
            "bounds of time.",
        ),
        "suspend": Entry(
            "assay.cli.run_actions:suspend",
            "Start no new try; live ones finish and count, unless they are to stop.",
        ),
        "resume": Entry(
            "assay.cli.run_actions:resume",
            "Let a run go on that was suspended, by you or because going on would have wasted money.",
        ),
        "cancel": Entry(
            "assay.cli.run_actions:cancel",
            "Delete a run: its live tries are stopped and count for nothing. Its evidence and "
            "journal stay in S3.",
        ),
        "report": Entry(
            "assay.cli.report:app",
            "Read the report of a run, or make HTML pages of it and of single attempts.",
        ),
        "score": Entry(
            "assay.cli.score:score",
            "Turn recorded attempts into scores with their errors, costs and companions.",
        ),
        "compare": Entry(
            "assay.cli.score:compare_reports", "Say whether two runs agree within their stated error."
        ),
        "suites": Entry(
            "assay.cli.score:suites", "List the suites that Assay ships, with their version history."
        ),
        "ledger": Entry(
            "assay.cli.ledger:app",
            "Freeze a task set before the first model call, publish it, look at it.",
        ),
        "import": Entry(
            "assay.cli.import_job:app",
            "Make attempt records of what other harnesses left, to score it.",
        ),
        "prices": Entry(
            "assay.cli.prices:app", "Make and review the price sheet that costs are computed with."
        ),
        "journal": Entry(
            "assay.cli.journal:app", "Read the journal of a run, and check that nobody changed it."
        ),
    }
)
"""By name, in the order of the help."""


class _Commands(TyperGroup):
    """Knows of each command what help and completion show, and imports the one that is used."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = {name: TyperCommand(name, help=entry.summary) for name, entry in COMMANDS.items()}

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, found, rest = super().resolve_command(ctx, args)
        return name, load(name) if name else found, rest


def load(name: str) -> Any:
    """The command itself. Raises KeyError for a name that is none."""
    module, _, attribute = COMMANDS[name].place.partition(":")
    found = getattr(import_module(module), attribute)
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
        from importlib.metadata import version as installed_version

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
