"""How commands reach the cluster: the options that all of them share, and the runs that are there.

`with_cluster` is for commands that watch, change or ask for many things; `read_cluster` for those that only
look, and import neither asyncio nor aiohttp: that would take longer than all that they do.
"""

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import ValidationError

from assay.adapters.kube_config import REQUEST_SECONDS, KubeConfig, KubeConfigError, load_kube_config
from assay.adapters.kube_errors import KubeError, KubeRefused, KubeUnavailable, decoded
from assay.adapters.kube_read import KubeReader
from assay.api.evaluation_run import EvaluationRun
from assay.api.labels import API_VERSION
from assay.cli.output import InputError, expected_errors, explained
from assay.core.run_story import ended

if TYPE_CHECKING:
    from assay.adapters.kube import KubeClient

RUN_FAILED = 4
"""Exit status where the run ended without the coverage that it asks for, or without any valid attempt."""
RUN_STOPPED = 5
"""Exit status where the run goes no further without somebody's decision."""

TIMEOUT_VARIABLE = "ASSAY_REQUEST_SECONDS"
"""How long one request to the API server may take."""
MOST_SECONDS = 3600
COMPLETION_SECONDS = 2.0
"""Somebody has pressed Tab and waits."""

GROUP_PATH = f"/apis/{API_VERSION}"

Namespace = Annotated[
    str | None, typer.Option("--namespace", "-n", help="Namespace of the run; absent = the context's.")
]
Context = Annotated[str | None, typer.Option(help="Context of the kubeconfig; absent = the current one.")]
Kubeconfig = Annotated[
    Path | None, typer.Option(help="Kubeconfig file; absent = KUBECONFIG, else ~/.kube/config.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


@dataclass(frozen=True, slots=True)
class Cluster:
    """A connection, and the namespace that the user means."""

    client: "KubeClient"
    namespace: str

    def path(self, plural: str, name: str = "") -> str:
        """Path of one of our resources, or of all of a kind, in the namespace."""
        return resource_path(self.namespace, plural, name)

    async def run(self, name: str) -> EvaluationRun:
        """The run of that name. Raises InputError where there is none."""
        with _absence_explained(self.namespace, name):
            return parse_run(await self.client.get(self.path("evaluationruns", name)))

    async def changes(self, run: EvaluationRun) -> AsyncIterator[EvaluationRun]:
        """Every later state of the run. Raises WatchExpired; InputError once it is deleted."""
        query = {"fieldSelector": f"metadata.name={run.metadata.name}"}
        path = self.path("evaluationruns")
        async for event in self.client.watch(path, query, run.metadata.resource_version):
            if event.type == "DELETED":
                raise InputError(f"EvaluationRun {run.metadata.name} was deleted; its evidence stays in S3")
            if event.type in ("ADDED", "MODIFIED"):
                yield parse_run(decoded(event.object))


@dataclass(frozen=True, slots=True)
class View:
    """What can be read in the namespace that the user means."""

    reader: KubeReader
    namespace: str

    def runs(self, everywhere: bool = False) -> list[EvaluationRun]:
        """The runs of the namespace, or of all namespaces."""
        path = (
            f"{GROUP_PATH}/evaluationruns" if everywhere else resource_path(self.namespace, "evaluationruns")
        )
        return [parse_run(body) for body in self.reader.get(path)["items"]]

    def run(self, name: str) -> EvaluationRun:
        """The run of that name. Raises InputError where there is none."""
        with _absence_explained(self.namespace, name):
            return parse_run(self.reader.get(resource_path(self.namespace, "evaluationruns", name)))


def run_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names of runs for a shell that completes; none where the cluster does not say them at once."""
    asked = ctx.params
    try:
        config = load_kube_config(kubeconfig=asked.get("kubeconfig"), context=asked.get("context"))
        path = resource_path(asked.get("namespace") or config.namespace, "evaluationruns")
        found = KubeReader(config, COMPLETION_SECONDS).get(path)["items"]
    except (KubeError, KubeConfigError, OSError):
        return []
    names = (str(one["metadata"]["name"]) for one in found)
    return [name for name in names if name.startswith(incomplete)]


def resource_path(namespace: str, plural: str, name: str = "") -> str:
    """Path of one of our resources, or of all of a kind."""
    return f"{GROUP_PATH}/namespaces/{namespace}/{plural}" + (f"/{name}" if name else "")


@contextmanager
def _absence_explained(namespace: str, name: str) -> Iterator[None]:
    try:
        yield
    except KubeRefused as error:
        if error.status != 404:
            raise
        raise InputError(
            f"there is no EvaluationRun {name} in namespace {namespace}: `assay list -A` shows those of all "
            "namespaces"
        ) from error


def parse_run(body: object) -> EvaluationRun:
    """The run of a body that the API server sent. Raises InputError where another version wrote it."""
    try:
        return EvaluationRun.parse(body)
    except ValidationError as error:
        raise InputError(explained("EvaluationRun (of another version of Assay?)", error)) from error


def with_cluster[T](
    work: Callable[[Cluster], Awaitable[T]],
    namespace: str | None = None,
    context: str | None = None,
    kubeconfig: Path | None = None,
) -> T:
    """Do the work with a connection; what a user can cause ends the command with one message."""
    import asyncio

    from assay.adapters.kube import KubeClient

    with expected_errors():
        config, seconds = load_kube_config(kubeconfig=kubeconfig, context=context), _request_seconds()

        async def connected() -> T:
            async with KubeClient(config, request_seconds=seconds) as client:
                return await work(Cluster(client, namespace or config.namespace))

        with _failures_explained(config):
            return asyncio.run(connected())
    raise AssertionError("expected_errors ends the command")


def read_cluster[T](
    read: Callable[[View], T],
    namespace: str | None = None,
    context: str | None = None,
    kubeconfig: Path | None = None,
) -> T:
    """What `read` finds; what a user can cause ends the command with one message."""
    with expected_errors():
        config = load_kube_config(kubeconfig=kubeconfig, context=context)
        reader = KubeReader(config, _request_seconds())
        with _failures_explained(config):
            return read(View(reader, namespace or config.namespace))
    raise AssertionError("expected_errors ends the command")


@contextmanager
def _failures_explained(config: KubeConfig) -> Iterator[None]:
    try:
        yield
    except KubeUnavailable as error:
        raise InputError(f"{config.server}: {error}; does `kubectl get --raw /readyz` work?") from error
    except KubeRefused as error:
        raise InputError(_refused(config, error)) from error


def _request_seconds() -> float:
    text = os.environ.get(TIMEOUT_VARIABLE, "")
    try:
        seconds = float(text) if text else REQUEST_SECONDS
    except ValueError:
        seconds = 0
    if not 0 < seconds <= MOST_SECONDS:
        raise InputError(f"{TIMEOUT_VARIABLE} is {text!r}: give seconds, above 0 and at most {MOST_SECONDS}")
    return seconds


def _refused(config: KubeConfig, error: KubeRefused) -> str:
    if error.status == 401:
        return f"{config.server} does not know these credentials: log in again, or choose another --context"
    if error.status == 404:
        return f"{config.server}: {error}; is Assay installed there? (docs/install.md)"
    return f"{config.server}: {error}"


def exit_status(run: EvaluationRun) -> int:
    """The status that tells a script how an ended run went; 0 while it goes on."""
    if not ended(run):
        return 0
    nothing = run.status.attempts.recorded == 0
    failed = any(one.type == "Failed" and one.status == "True" for one in run.status.conditions)
    return RUN_FAILED if failed or nothing else 0


def end_with(status: int) -> None:
    """End the command with a status that is not 0; return where it is."""
    if status:
        raise typer.Exit(status)
