"""`assay watch`: a run until it ends, as a live picture on a terminal and as lines elsewhere."""

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Annotated, Protocol

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from assay.adapters.kube import KubeUnavailable, WatchExpired
from assay.api.evaluation_run import EvaluationRun
from assay.cli.cluster import (
    RUN_STOPPED,
    Cluster,
    Context,
    Kubeconfig,
    Namespace,
    end_with,
    exit_status,
    with_cluster,
)
from assay.cli.output import InputError
from assay.cli.output import console as stderr
from assay.cli.run_views import RunName, aligned
from assay.core import run_story
from assay.core.terminal_text import printable

_BAR_WIDTH = 40
_REDRAWS_A_SECOND = 2
_RECONNECT_SECONDS = 2.0
_GIVE_UP_SECONDS = 120.0


class _Screen(Protocol):
    def update(self, run: EvaluationRun) -> None: ...


def watch(
    run: RunName,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    stay: Annotated[
        bool, typer.Option("--stay", help="Also stay while the run is stopped and waits for somebody.")
    ] = False,
) -> None:
    """Follow a run until it ends: a progress bar and the vector as it grows, or lines without a terminal.

    Exit status: 0 the run is complete; 4 it ended without its coverage or without any valid attempt; 5 it is
    stopped and goes no further without you; 1 it cannot be read or was deleted.

    Example:

        kubectl assay watch nightly -n evals
    """
    end_with(with_cluster(lambda cluster: _follow(cluster, run, stay), namespace, context, kubeconfig))


async def _follow(cluster: Cluster, name: str, stay: bool) -> int:
    found = await cluster.run(name)
    out = Console(highlight=False)
    if not out.is_terminal:
        return await _until_end(cluster, found, _Lines(), stay)
    with Live(_picture(found), console=out, refresh_per_second=_REDRAWS_A_SECOND) as live:
        return await _until_end(cluster, found, _Picture(live), stay)


async def _until_end(cluster: Cluster, found: EvaluationRun, screen: _Screen, stay: bool) -> int:
    screen.update(found)
    async for run in _states(cluster, found):
        screen.update(run)
        if run_story.ended(run):
            return exit_status(run)
        if run_story.stopped(run) and not stay:
            return RUN_STOPPED
    return 0


async def _states(cluster: Cluster, found: EvaluationRun) -> AsyncIterator[EvaluationRun]:
    """The run as it is, then each time that it changes; an API server that is away is waited for."""
    name, away_since = found.metadata.name, 0.0
    while True:
        try:
            run = await cluster.run(name)
            if run.metadata.uid != found.metadata.uid:
                raise InputError(f"EvaluationRun {name} was deleted and created again")
            away_since = 0.0
            yield run
            async for changed in cluster.changes(run):
                yield changed
        except WatchExpired:
            continue
        except KubeUnavailable as error:
            away_since = away_since or time.monotonic()
            if time.monotonic() - away_since > _GIVE_UP_SECONDS:
                raise
            stderr.print(f"{printable(str(error))}; trying again", markup=False)
            await asyncio.sleep(_RECONNECT_SECONDS)


class _Lines:
    """One line for each change that a person would notice."""

    def __init__(self) -> None:
        self._last = ""

    def update(self, run: EvaluationRun) -> None:
        line = printable(run_story.progress_line(run))
        if line != self._last:
            self._last = line
            typer.echo(f"{datetime.now(UTC):%H:%M:%S}  {line}")


class _Picture:
    def __init__(self, live: Live) -> None:
        self._live = live

    def update(self, run: EvaluationRun) -> None:
        self._live.update(_picture(run))


def _picture(run: EvaluationRun) -> RenderableType:
    attempts = run.status.attempts
    done = attempts.recorded + attempts.invalid
    percent = f"{100 * done // attempts.planned} %" if attempts.planned else "—"
    left = run_story.time_left(run, datetime.now(UTC))
    bar = Table.grid(padding=(0, 1))
    bar.add_row(
        Text(run.metadata.name, style="bold"),
        ProgressBar(total=max(1, attempts.planned), completed=done, width=_BAR_WIDTH),
        Text(percent),
        Text(f"about {left} left" if left and not run_story.ended(run) else ""),
    )
    parts: list[RenderableType] = [bar, Text(printable(run_story.progress_line(run)))]
    if run.status.vector:
        parts += [Text(""), aligned(run_story.vector_table(run.status.vector, run_story.baseline(run)))]
    if run.status.recent_failures:
        parts += [Text(""), *(Text(f"  {printable(line)}", style="dim") for line in run_story.failures(run))]
    return Group(*parts)
