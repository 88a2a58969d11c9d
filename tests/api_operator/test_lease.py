"""Each operator process has an epoch of its own, higher than that of every process before it."""

import asyncio

import pytest

from assay.adapters.lease import Lease, LeaseLost
from tests.operator_kit.cluster import Cluster

pytestmark = pytest.mark.api


def lease(cluster: Cluster, identity: str = "pod") -> Lease:
    return Lease(cluster.client, cluster.namespace, identity)


async def test_a_restarted_container_of_the_same_pod_has_the_lease_at_once_with_a_higher_epoch(
    cluster: Cluster,
) -> None:
    killed = lease(cluster)
    await killed.acquire()
    assert killed.held
    restarted = lease(cluster)
    await asyncio.wait_for(restarted.acquire(), 10)
    assert restarted.epoch > killed.epoch


async def test_a_second_process_of_the_same_identity_ends_the_first(cluster: Cluster) -> None:
    first, second = lease(cluster), lease(cluster)
    await first.acquire()
    await second.acquire()
    with pytest.raises(LeaseLost, match=f"epoch {second.epoch}"):
        await asyncio.wait_for(first.hold(), 60)
    await first.release()
    path = f"/apis/coordination.k8s.io/v1/namespaces/{cluster.namespace}/leases/assay-operator"
    assert (await cluster.client.get(path))["spec"]["holderIdentity"] == "pod", "it is the second one's"


async def test_a_lease_that_somebody_deleted_does_not_start_again_at_one(cluster: Cluster) -> None:
    first = lease(cluster, "first")
    await first.acquire()
    path = f"/apis/coordination.k8s.io/v1/namespaces/{cluster.namespace}/leases/assay-operator"
    await cluster.client.request("DELETE", path)
    second = lease(cluster, "second")
    await asyncio.wait_for(second.acquire(), 10)
    assert second.epoch >= first.epoch
    with pytest.raises(LeaseLost, match="held by second"):
        await asyncio.wait_for(first.hold(), 60)
