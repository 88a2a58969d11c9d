"""python -m localcluster: a real Kubernetes on this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from localcluster import build as building
from localcluster import cluster as clusters
from localcluster import current, debian, lifecycle, toolset
from localcluster.components import REMOVABLE
from localcluster.errors import ClusterError
from localcluster.layout import Layout, Profile
from localcluster.state import State

app = typer.Typer(help=__doc__, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
console = Console(stderr=True, soft_wrap=True)

ProfileOption = Annotated[
    Profile,
    typer.Option(help="`control-plane` has an API server but no node, `simulated` nodes in name only."),
]


@app.command()
def up(
    profile: ProfileOption = Profile.NODE,
    without: Annotated[list[str] | None, typer.Option(help=f"Leave out: {', '.join(REMOVABLE)}.")] = None,
    restart: Annotated[bool, typer.Option("--restart", help="End a running cluster first.")] = False,
) -> None:
    """Start a cluster, or do nothing if it is up and healthy.

    The first start on a machine installs Debian packages and builds Kubernetes from source.
    """
    if current.chosen():
        console.print(current.describe())
        return
    cluster = lifecycle.up(profile, without or [], restart, console)
    enter = "shell" if profile is Profile.NODE else f"shell --profile {profile}"
    console.print(f"Kubernetes {cluster.facts.kubernetes_version} is up: `python -m localcluster {enter}`")


@app.command()
def down(
    profile: Annotated[Profile | None, typer.Option(help="Only this one; by default all.")] = None,
    purge: Annotated[bool, typer.Option("--purge", help="Remove the pulled and pushed images, too.")] = False,
) -> None:
    """End the cluster: no process, mount, cgroup or namespace stays.

    Of the files, images stay (containerd's store and the registry), because the first pod after they are gone
    takes half a minute. --purge removes them.
    """
    if current.chosen():
        console.print("CLUSTER=current: that cluster is not ours to stop")
        return
    for each in [profile] if profile else list(Profile):
        if lifecycle.down(each, purge):
            console.print(f"{each}: ended")


@app.command(context_settings={"ignore_unknown_options": True})
def shell(
    command: Annotated[
        list[str] | None, typer.Argument(help="After `--`; without it, an interactive shell.")
    ] = None,
    profile: ProfileOption = Profile.NODE,
) -> None:
    """Run a command inside the cluster's namespaces, with KUBECONFIG, kubectl, helm and crane.

    Ends with the command's status; a component that died meanwhile makes it 1 instead of 0.
    """
    argv = command or [os.environ.get("SHELL", "/bin/sh")]
    if current.chosen():
        raise typer.Exit(_run(argv))
    cluster = clusters.connect(profile)
    status = _run(cluster.command(argv))
    try:
        cluster.check()
    except ClusterError as error:
        _complain(error)
        status = status or 1
    raise typer.Exit(status)


@app.command()
def status(profile: ProfileOption = Profile.NODE) -> None:
    """Say what runs; the exit status is 0 only if everything does."""
    if current.chosen():
        console.print(current.describe())
        return
    cluster = clusters.find(Layout.of(profile))
    if cluster and cluster.alive() and (state := State.read(cluster.where)):
        for name, component in state.components.items():
            detail = component.ended or (f"pid {component.pid}" if component.pid else "")
            sys.stdout.write(f"{name:24} {component.status:9} {detail}\n")
    clusters.connect(profile)


@app.command()
def restart(
    component: Annotated[str, typer.Argument(help="As `status` names it.")],
    profile: ProfileOption = Profile.NODE,
) -> None:
    """Kill a component, as a crash would, and start it again; returns when it is ready.

    A test that needs to know what others do meanwhile starts this in the background.
    """
    lifecycle.restart(clusters.connect(profile), component)


@app.command()
def logs(
    component: Annotated[str | None, typer.Argument(help="Without it, all are listed.")] = None,
    profile: ProfileOption = Profile.NODE,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as it grows.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, help="How many of the last lines.")] = 100,
) -> None:
    """Show a component's log."""
    cluster = clusters.find(Layout.of(profile))
    if cluster is None:
        raise ClusterError("no cluster was started")
    known = sorted(path.stem for path in cluster.facts.logs.glob("*.log"))
    if component is None:
        sys.stdout.write("".join(f"{cluster.facts.logs / name}.log\n" for name in known))
        return
    if component not in known:
        raise ClusterError(f"no component is called {component!r}: it is one of {', '.join(known)}")
    path = cluster.facts.logs / f"{component}.log"
    raise typer.Exit(_run(["tail", "-n", str(lines), *(["-F"] if follow else []), str(path)]))


@app.command()
def build(
    name: Annotated[str, typer.Argument(metavar="SET", help="A set or a single tool.")] = "demo",
) -> None:
    """Build the pinned tools into the cache (ASSAY_CACHE), unless they are there."""
    for tool, folder in building.ensure(toolset.select(name), console).items():
        sys.stdout.write(f"{tool} {folder}\n")


@app.command()
def deps(
    purposes: Annotated[
        list[str] | None, typer.Argument(help=f"Of: {', '.join(debian.PACKAGES)}. Absent = all.")
    ] = None,
) -> None:
    """Install the Debian packages that the cluster, the image builds and the tests need."""
    if unknown := set(purposes or ()) - set(debian.PACKAGES):
        raise ClusterError(f"{', '.join(sorted(unknown))}: the purposes are {', '.join(debian.PACKAGES)}")
    debian.ensure(purposes or list(debian.PACKAGES), console)
    console.print("All packages are installed")


def main() -> None:
    """The entry point: errors that the user can act on become one message and status 1."""
    try:
        app(prog_name="python -m localcluster", standalone_mode=True)
    except ClusterError as error:
        _complain(error)
        sys.exit(1)


def _complain(error: ClusterError) -> None:
    console.print(f"[red]localcluster:[/red] {escape(str(error))}", highlight=False)


def _run(argv: list[str]) -> int:
    """Runs a command on this terminal, hands signals on, and returns its status as a shell does."""
    try:
        process = subprocess.Popen(argv)
    except FileNotFoundError:
        raise ClusterError(f"no such command: {argv[0]}") from None

    def hand_on(number: int, _: FrameType | None) -> None:
        _signal_descendants(process.pid, number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, hand_on)
    # The terminal sends this one to the command itself, which decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    code = process.wait()
    return code if code >= 0 else 128 - code


def _signal_descendants(pid: int, number: int) -> None:
    """nsenter waits for the command but hands no signal on: the command is its child."""
    children = Path(f"/proc/{pid}/task/{pid}/children")
    targets = [int(child) for child in children.read_text().split()] if children.exists() else []
    for target in targets or [pid]:
        os.kill(target, number)
