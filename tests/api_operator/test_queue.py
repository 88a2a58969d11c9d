"""Jobs in a queue of Kueue: made suspended, never let go by Assay, taken back without a loss (E11, E12)."""

from typing import Any

import pytest

from assay.core.attempt_pod import QUEUE_LABEL
from tests.api_operator.conftest import Operator, Wishes
from tests.operator_kit.cluster import Cluster, Object, until
from tests.operator_kit.journal import recorded

pytestmark = pytest.mark.api


async def test_a_job_waits_for_its_queue_and_is_queued_again_when_it_is_taken_back(
    cluster: Cluster, operator: Operator, wishes: Wishes
) -> None:
    await wishes.ledger()
    await wishes.variant()
    await wishes.run(queueName="evals")
    async with operator.running():
        waiting = await cluster.condition("evaluationruns", "run", "Progressing", "False", "WaitingForQuota")
        assert "suspended" in waiting["message"]
        (job,) = await cluster.jobs("run")
        assert (job["spec"]["suspend"], job["metadata"]["labels"][QUEUE_LABEL]) == (True, "evals")
        await admit(cluster, job, suspend=False)
        (pod,) = await cluster.live_pods("run", 1)
        await admit(cluster, job, suspend=True)
        await cluster.gone(f"/api/v1/namespaces/{cluster.namespace}/pods/{pod['metadata']['name']}")
        await cluster.condition("evaluationruns", "run", "Progressing", "False", "WaitingForQuota")
        status = (await cluster.get("evaluationruns", "run"))["status"]
        assert status.get("outcomes", []) == [], "nothing is counted"
        (same,) = await cluster.jobs("run")
        assert (same["metadata"]["uid"], same["spec"]["suspend"]) == (job["metadata"]["uid"], True)
        await admit(cluster, job, suspend=False)
        (again,) = await cluster.live_pods("run", 1)
        await cluster.finish(again)
        await cluster.condition("evaluationruns", "run", "Complete", "True")
    (record,) = await recorded(cluster)
    assert (record.try_number, record.pod_uid) == (1, again["metadata"]["uid"])


async def test_a_stop_takes_jobs_out_of_their_queue(
    cluster: Cluster, operator: Operator, wishes: Wishes
) -> None:
    await wishes.ledger(tasks=2)
    await wishes.variant()
    await wishes.run(queueName="evals")
    async with operator.running():
        await cluster.condition("evaluationruns", "run", "Progressing", "False", "WaitingForQuota")
        await cluster.change("evaluationruns", "run", {"suspend": True, "suspendPolicy": "Stop"})

        async def none_left() -> bool:
            return await cluster.jobs("run") == []

        await until("the queue is empty", none_left)
        await cluster.change("evaluationruns", "run", {"suspend": False})

        async def queued_again() -> list[Object]:
            return [one for one in await cluster.jobs("run") if one["spec"]["suspend"]]

        assert len(await until("the Jobs are queued again", queued_again)) >= 1
    assert await recorded(cluster) == []


async def admit(cluster: Cluster, job: Object, *, suspend: bool) -> None:
    """What Kueue does: it lets a Job go, or takes it back."""
    body: dict[str, Any] = {"spec": {"suspend": suspend}}
    name = job["metadata"]["name"]
    await cluster.client.merge(f"/apis/batch/v1/namespaces/{cluster.namespace}/jobs/{name}", body)
