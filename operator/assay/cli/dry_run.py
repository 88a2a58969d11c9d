"""`assay dry-run`: what a run would be, before it costs anything."""

from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
import yaml

from assay.adapters.kube import KubeRefused
from assay.api.evaluation_run import EvaluationRun
from assay.cli.cluster import AsJson, Cluster, Context, Kubeconfig, Namespace, parse_run, with_cluster
from assay.cli.output import InputError, expected_errors, print_json, print_table
from assay.cli.run_evidence import Endpoint, open_store
from assay.cli.run_plan import plan_of
from assay.core.forecast import Forecast, forecast
from assay.core.plan import RunPlan
from assay.core.run_story import duration

_KIND = "EvaluationRun"


def dry_run(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", exists=True, dir_okay=False, help="Manifest with one EvaluationRun."),
    ],
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    endpoint: Endpoint = None,
    as_json: AsJson = False,
) -> None:
    """Resolve a manifest against the cluster and create nothing: its attempts, resources, bounds of time.

    The API server checks the manifest by its own rules; the ledgers and variants that it names must be in the
    cluster, and each ledger's digest is computed from its bytes.

    Example:

        kubectl assay dry-run nightly.yaml
    """
    with expected_errors():
        body = _manifest(file)

    async def read(cluster: Cluster) -> tuple[EvaluationRun, RunPlan]:
        where = body["metadata"].get("namespace") or cluster.namespace
        if namespace and where != namespace:
            raise InputError(f"{file}: metadata.namespace is {where}, and --namespace says {namespace}")
        cluster = Cluster(cluster.client, where)
        run = await _as_created(cluster, body)
        async with open_store(endpoint) as store:
            return run, await plan_of(cluster, store, run)

    run, plan = with_cluster(read, namespace, context, kubeconfig)
    found = forecast(run.spec, plan)
    if as_json:
        print_json({**asdict(found), "deviations": list(plan.deviations), "budget": _budget(run)})
    else:
        _print(run, plan, found)


def _manifest(file: Path) -> dict[str, Any]:
    try:
        documents = [one for one in yaml.safe_load_all(file.read_text()) if isinstance(one, dict)]
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError(f"{file}: no YAML: {error}") from error
    runs = [one for one in documents if one.get("kind") == _KIND]
    if len(runs) != 1:
        raise InputError(f"{file}: {len(runs)} documents of kind {_KIND}; there must be one")
    if not isinstance(runs[0].get("metadata"), dict):
        raise InputError(f"{file}: metadata is missing")
    return runs[0]


async def _as_created(cluster: Cluster, body: dict[str, Any]) -> EvaluationRun:
    """The run as the API server would store it, defaults filled in. Raises InputError with its words."""
    named = {**body, "metadata": {**body["metadata"], "namespace": cluster.namespace}}
    try:
        return parse_run(await _create(cluster, named))
    except KubeRefused as error:
        if error.status == 409:
            # The name is taken; what is asked is what such a run would be.
            name = f"{str(body['metadata'].get('name', ''))[:40]}-dry-run"
            return parse_run(
                await _create(cluster, {**named, "metadata": {**named["metadata"], "name": name}})
            )
        if error.status in (400, 422):
            raise InputError(str(error)) from error
        raise


async def _create(cluster: Cluster, body: dict[str, Any]) -> object:
    answer = await cluster.client.request(
        "POST",
        cluster.path("evaluationruns"),
        body,
        parameters={"dryRun": "All", "fieldValidation": "Strict"},
    )
    return msgspec.json.decode(answer)


def _print(run: EvaluationRun, plan: RunPlan, found: Forecast) -> None:
    print_table(
        ("LEDGER", "TASKS", "CLUSTERS", "REPETITIONS", "ATTEMPTS", "LONGEST TRY", "CPU", "MEMORY", "DIGEST"),
        (
            (
                one.name,
                one.tasks,
                one.clusters,
                one.repetitions,
                one.attempts,
                duration(timedelta(seconds=one.longest_try_seconds)),
                f"{one.cpu_millis[0]}m to {one.cpu_millis[1]}m",
                f"{one.memory_mib[0]} to {one.memory_mib[1]} MiB",
                one.digest,
            )
            for one in found.ledgers
        ),
    )
    print_table(
        ("VARIANT", "BASELINE", "FINGERPRINT"),
        (
            (one.name, "yes" if _is_baseline(run, one.name) else "no", one.fingerprint)
            for one in plan.variants.values()
        ),
    )
    parallel = min(run.spec.parallelism, found.attempts)
    cpu = max(one.cpu_millis[0] for one in found.ledgers) * parallel / 1000
    memory = max(one.memory_mib[0] for one in found.ledgers) * parallel / 1024
    print_table(
        ("WHAT", "AT MOST"),
        (
            ("attempts", found.attempts),
            ("tries, if every retry limit is spent", found.most_tries),
            ("live at once", parallel),
            ("requested by the live ones", f"{cpu:g} CPU, {memory:.1f} GiB"),
            ("time, if every try takes all of its own", duration(timedelta(seconds=found.most_seconds))),
            ("cost", _budget(run) or "no bound: spec.budget would set one"),
        ),
    )
    for one in plan.deviations:
        typer.echo(f"NonStandard: {one}")


def _is_baseline(run: EvaluationRun, variant: str) -> bool:
    return run.spec.baseline is not None and run.spec.baseline.name == variant


def _budget(run: EvaluationRun) -> str | None:
    budget = run.spec.budget
    return f"{budget.usd} USD, the run's budget" if budget is not None and budget.usd else None
