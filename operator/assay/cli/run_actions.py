"""`assay suspend`, `resume` and `cancel`: what a person may do to a run that goes on."""

import asyncio
from pathlib import Path
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
    dry_run: DryRun = False,
) -> None:
    """Start no new try; live ones finish and count.

    Example:

        kubectl assay suspend nightly
    """
    _set_suspend(run, True, "suspended: live tries finish", namespace, context, kubeconfig, dry_run)


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
    _set_suspend(run, False, "goes on", namespace, context, kubeconfig, dry_run)


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
        return f"evaluationrun {run} deleted; evidence: {kept}"

    typer.echo(with_cluster(delete, namespace, context, kubeconfig) + (" (dry run)" if dry_run else ""))


def _set_suspend(
    name: str,
    value: bool,
    words: str,
    namespace: str | None,
    context: str | None,
    kubeconfig: Path | None,
    dry_run: bool,
) -> None:
    async def change(cluster: Cluster) -> None:
        found = await cluster.run(name)
        if ended(found):
            raise InputError(f"EvaluationRun {name} has ended; a finished run does not change")
        if not (value or found.spec.suspend):
            # A run that stopped itself goes on when somebody switches it off and on again (decision 0003).
            off = await _patch(cluster, name, True, dry_run)
            if not dry_run:
                await _seen(cluster, off)
        await _patch(cluster, name, value, dry_run)

    with_cluster(change, namespace, context, kubeconfig)
    typer.echo(f"evaluationrun {name} {words}" + (" (dry run)" if dry_run else ""))


async def _patch(cluster: Cluster, name: str, value: bool, dry_run: bool) -> EvaluationRun:
    answer = await cluster.client.request(
        "PATCH",
        cluster.path("evaluationruns", name),
        {"spec": {"suspend": value}},
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
