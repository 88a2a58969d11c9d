"""The plan of a run, computed by the operator's own code from what its names stand for now."""

import asyncio

from assay.adapters.kube import KubeRefused
from assay.adapters.ledger_source import ledger_bytes
from assay.adapters.s3 import AsyncS3Store
from assay.api.agent_variant import AgentVariant
from assay.api.evaluation_run import EvaluationRun
from assay.api.ledger_resource import Ledger
from assay.cli.cluster import Cluster
from assay.cli.output import InputError
from assay.core.ledger_status import check_ledger
from assay.core.plan import PlanRefused, RunLedger, RunPlan, make_plan
from assay.core.resolve import Problem, resolve, run_ledger_of


async def plan_of(cluster: Cluster, store: AsyncS3Store, run: EvaluationRun) -> RunPlan:
    """The plan. Raises InputError with the operator's own words where it would wait or refuse."""
    names = [one.name for one in run.spec.ledgers]
    ledgers = {one.metadata.name: one for one in await _all(cluster, "ledgers", Ledger, names)}
    variants = await _all(cluster, "agentvariants", AgentVariant, [one.name for one in run.spec.variants])
    contents: dict[str, RunLedger | Problem] = {}
    for name, ledger in ledgers.items():
        content = await ledger_bytes(cluster.client, store, ledger)
        # Parsing a large ledger takes seconds.
        contents[name] = run_ledger_of(ledger, await asyncio.to_thread(check_ledger, ledger, content))
    found = resolve(run, ledgers, contents, {one.metadata.name: one for one in variants})
    problem = found.ledger_problem or found.variant_problem
    if problem is not None:
        raise InputError(f"{problem.reason.value}: {problem.message}")
    try:
        return make_plan(run.spec, run.metadata.uid, found.ledgers, found.variants)
    except PlanRefused as error:
        raise InputError(f"{error.reason.value}: {error}") from error


async def _all[R: (Ledger, AgentVariant)](
    cluster: Cluster, plural: str, kind: type[R], names: list[str]
) -> list[R]:
    """Those of the named resources that exist. Raises KubeErrors."""
    found = await asyncio.gather(
        *(cluster.client.get(cluster.path(plural, name)) for name in names), return_exceptions=True
    )
    resources = []
    for one in found:
        if isinstance(one, KubeRefused) and one.status == 404:
            continue
        if isinstance(one, BaseException):
            raise one
        resources.append(kind.parse(one))
    return resources
