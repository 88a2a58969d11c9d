"""`assay list` and `assay show`: what runs there are, and how one stands."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table as RichTable

from assay.api.evaluation_run import EvaluationRun
from assay.cli.cluster import (
    AsJson,
    Context,
    Kubeconfig,
    Namespace,
    end_with,
    exit_status,
    read_cluster,
    run_names,
)
from assay.cli.output import print_json, print_table
from assay.core import run_story
from assay.core.run_story import Table
from assay.core.terminal_text import one_line, printable

_PLAIN_WIDTH = 200
_CELL = 80

RunName = Annotated[
    str, typer.Argument(metavar="RUN", help="Name of the EvaluationRun.", autocompletion=run_names)
]


def list_runs(
    namespace: Namespace = None,
    everywhere: Annotated[
        bool, typer.Option("--all-namespaces", "-A", help="Runs of every namespace.")
    ] = False,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    as_json: AsJson = False,
) -> None:
    """List the runs, newest first: how far each is, and what it is doing or waiting for.

    Example:

        kubectl assay list -n evals
    """
    runs = read_cluster(lambda view: view.runs(everywhere), namespace, context, kubeconfig)
    runs.sort(key=lambda run: run.metadata.creation_timestamp or "", reverse=True)
    if as_json:
        print_json([run.model_dump(mode="json", exclude_none=True) for run in runs])
        return
    now = datetime.now(UTC)
    print_table(
        ("NAMESPACE", "RUN", "STATE", "RECORDED", "PLANNED", "LIVE", "INVALID", "AGE", "WHAT"),
        (
            (
                run.metadata.namespace,
                run.metadata.name,
                run_story.state(run),
                run.status.attempts.recorded,
                run.status.attempts.planned,
                run.status.attempts.live,
                run.status.attempts.invalid,
                run_story.age(run, now),
                one_line(run_story.doing(run), _CELL),
            )
            for run in runs
        ),
    )


def show(
    run: RunName,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    as_json: AsJson = False,
) -> None:
    """Show one run: its vector, what it was made with, what failed, where its evidence lies.

    Exit status: 0; 4 where the run has ended without the coverage that it asks for, or without any valid
    attempt; 1 where it cannot be read.

    Example:

        kubectl assay show nightly -n evals
    """
    found = read_cluster(lambda view: view.run(run), namespace, context, kubeconfig)
    if as_json:
        print_json(found.model_dump(mode="json", exclude_none=True))
    else:
        _print_run(found)
    end_with(exit_status(found))


def _print_run(run: EvaluationRun) -> None:
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=_PLAIN_WIDTH)
    status = run.status
    if run_story.ended(run):
        console.print(printable(run_story.publishable(run)), markup=False)
    console.print(
        f"{run.metadata.namespace}/{run.metadata.name}: {printable(run_story.progress_line(run))}",
        markup=False,
    )
    _lines(console, run_story.facts(run))
    if status.vector:
        print_aligned(console, run_story.vector_table(status.vector, run_story.baseline(run)))
        _lines(console, sorted({run_story.provenance(row, status) for row in status.vector}))
    if status.outcomes:
        tries = ", ".join(f"{one.tries} {one.outcome.value}" for one in status.outcomes)
        _lines(console, [f"tries that have ended: {tries}"])
    if status.recent_failures:
        console.print("newest tries without a score (`assay explain` tells more):", markup=False)
        _lines(console, run_story.failures(run))


def _lines(console: Console, lines: Iterable[str]) -> None:
    for line in lines:
        console.print(f"  {printable(line)}", markup=False, soft_wrap=True)


def print_aligned(console: Console, content: Table) -> None:
    """A table for eyes: names at the left, figures at the right."""
    console.print(aligned(content))


def aligned(content: Table) -> RichTable:
    """The table as rich draws it."""
    headings, rows = content
    table = RichTable(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for index, heading in enumerate(headings):
        table.add_column(heading, justify="left" if index == 0 else "right", no_wrap=index == 0)
    for row in rows:
        table.add_row(*row)
    return table
