"""One operator works, however many are started."""

import pytest

from assay.adapters.kube import KubeRefused
from tests.api_operator.conftest import Operator, Wishes
from tests.operator_kit.cluster import Cluster, until
from tests.operator_kit.journal import recorded

pytestmark = pytest.mark.api


async def holder(cluster: Cluster) -> str:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{cluster.namespace}/leases/assay-operator"
    try:
        lease = await cluster.client.get(path)
    except KubeRefused as error:
        if error.status == 404:
            return ""
        raise
    return str(lease["spec"].get("holderIdentity"))


async def test_a_second_operator_waits_and_takes_over_when_the_first_is_gone(
    cluster: Cluster, operator: Operator, wishes: Wishes
) -> None:
    await wishes.ledger(tasks=2)
    await wishes.variant()
    first = await operator.start(POD_UID="first")

    async def first_holds() -> bool:
        return await holder(cluster) == "first"

    await until("the first operator holds the Lease", first_holds, seconds=90)
    async with operator.running(POD_UID="second") as second:
        await wishes.run(parallelism=2)
        pods = await cluster.live_pods("run", 2)
        assert await holder(cluster) == "first"
        first.kill()
        await first.wait()
        for pod in pods:
            await cluster.finish(pod)
        await cluster.condition("evaluationruns", "run", "Complete", "True")
        assert await holder(cluster) == "second"
        assert second.returncode is None
    assert len(await recorded(cluster)) == 2
    assert await cluster.jobs("run") == []


async def test_an_operator_that_ends_gives_the_lease_up(cluster: Cluster, operator: Operator) -> None:
    async with operator.running(POD_UID="first"):

        async def held() -> bool:
            return await holder(cluster) == "first"

        await until("the Lease is held", held, seconds=90)
    assert await holder(cluster) == ""


async def test_an_operator_that_lost_its_lease_stops(cluster: Cluster, operator: Operator) -> None:
    process = await operator.start(POD_UID="first")

    async def held() -> bool:
        return await holder(cluster) == "first"

    await until("the Lease is held", held, seconds=90)
    path = f"/apis/coordination.k8s.io/v1/namespaces/{cluster.namespace}/leases/assay-operator"
    await cluster.client.merge(path, {"spec": {"holderIdentity": "other"}})
    assert await process.wait() == 1
    assert "is held by other" in operator.log.read_text()
