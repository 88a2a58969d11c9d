"""`assay suspend`, `resume` and `cancel`: what a person may do to a run that goes on."""

import asyncio
from collections.abc import Mapping
from typing import Annotated

import msgspec
import typer

from assay.adapters.kube import MERGE_PATCH
from assay.api.evaluation_run import EvaluationRun
from assay.cli.cluster import Cluster, Context, Kubeconfig, Namespace, parse_run, with_cluster
from assay.cli.output import InputError
from assay.cli.run_views import RunName
from assay.core.run_story import ended

_OPERATOR_SECONDS = 60.0

DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Ask the API server whether it would do it, and change nothing.")
]


def suspend(
    run: RunName,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    stop: Annotated[
        bool, typer.Option("--stop", help="Also end the live tries; they count against no limit.")
    ] = False,
    dry_run: DryRun = False,
) -> None:
    """Start no new try; live ones finish and count, unless they are to stop.

    Example:

        kubectl assay suspend nightly
    """
    words = "suspended: live tries are stopped" if stop else "suspended: live tries finish"
    spec = {"suspend": True, "suspendPolicy": "Stop" if stop else "Drain"}

    async def change(cluster: Cluster) -> None:
        _refuse_ended(await cluster.run(run))
        await _patch(cluster, run, spec, dry_run)

    with_cluster(change, namespace, context, kubeconfig)
    _say(run, words, dry_run)


def resume(
    run: RunName,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    dry_run: DryRun = False,
) -> None:
    """Let a run go on that was suspended, by you or because going on would have wasted money.

    Mend the cause first: `kubectl assay show RUN` names it and the fix.

    Example:

        kubectl assay resume nightly
    """

    async def change(cluster: Cluster) -> None:
        found = await cluster.run(run)
        _refuse_ended(found)
        if not found.spec.suspend:
            # A run that stopped itself goes on when somebody switches it off and on again (decision 0003).
            off = await _patch(cluster, run, {"suspend": True}, dry_run)
            if not dry_run:
                await _seen(cluster, off)
        await _patch(cluster, run, {"suspend": False}, dry_run)

    with_cluster(change, namespace, context, kubeconfig)
    _say(run, "goes on", dry_run)


def cancel(
    run: RunName,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    dry_run: DryRun = False,
) -> None:
    """Delete a run: its live tries are stopped and count for nothing. Its evidence and journal stay in S3.

    To stop only for a while, suspend it.

    Example:

        kubectl assay cancel nightly --yes
    """

    async def delete(cluster: Cluster) -> str:
        found = await cluster.run(run)
        live = found.status.attempts.live
        if not (yes or dry_run) and not typer.confirm(
            f"Delete EvaluationRun {cluster.namespace}/{run} and stop its {live} live tries?", err=True
        ):
            raise typer.Abort
        body = {"propagationPolicy": "Background", "preconditions": {"uid": found.metadata.uid}}
        await cluster.client.request(
            "DELETE", cluster.path("evaluationruns", run), body, parameters=_dry(dry_run)
        )
        where = found.status.evidence_prefix
        kept = f"s3://{found.spec.storage.s3.bucket}/{where}" if where else "nothing was recorded yet"
        return f"deleted; evidence: {kept}"

    _say(run, with_cluster(delete, namespace, context, kubeconfig), dry_run)


def _refuse_ended(run: EvaluationRun) -> None:
    if ended(run):
        raise InputError(f"EvaluationRun {run.metadata.name} has ended; a finished run does not change")


def _say(name: str, words: str, dry_run: bool) -> None:
    typer.echo(f"evaluationrun {name} {words}" + (" (dry run)" if dry_run else ""))


async def _patch(cluster: Cluster, name: str, spec: Mapping[str, object], dry_run: bool) -> EvaluationRun:
    answer = await cluster.client.request(
        "PATCH",
        cluster.path("evaluationruns", name),
        {"spec": dict(spec)},
        parameters=_dry(dry_run),
        content_type=MERGE_PATCH,
    )
    return parse_run(msgspec.json.decode(answer))


async def _seen(cluster: Cluster, changed: EvaluationRun) -> None:
    """Return once the operator has seen the change: two quick ones would look like none to it."""
    try:
        async with asyncio.timeout(_OPERATOR_SECONDS):
            async for run in cluster.changes(changed):
                if run.status.observed_generation >= changed.metadata.generation:
                    return
    except TimeoutError as error:
        raise InputError(
            f"EvaluationRun {changed.metadata.name} is suspended, but the operator does not answer: is it "
            "running? Then resume again"
        ) from error


def _dry(wanted: bool) -> dict[str, str]:
    return {"dryRun": "All"} if wanted else {}
