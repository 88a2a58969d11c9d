"""Pods that have a node and start nothing: only their Events say why."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.api_operator.conftest import Operator, Wishes
from tests.operator_kit.cluster import Cluster, Object

pytestmark = pytest.mark.api

TIME = "%Y-%m-%dT%H:%M:%SZ"


async def test_a_pod_that_starts_nothing_says_what_its_newest_event_says(
    cluster: Cluster, operator: Operator, wishes: Wishes
) -> None:
    await wishes.ledger()
    await wishes.variant()
    await wishes.run()
    async with operator.running():
        (pod,) = await cluster.live_pods("run", 1)
        await given_to_a_node(cluster, pod, datetime.now(UTC) - timedelta(minutes=2))
        await warn(cluster, pod, "FailedScheduling", "0/1 nodes are available", seconds_ago=1)
        await warn(cluster, pod, "FailedMount", "no such thing as yesterday", seconds_ago=1000)
        words = 'MountVolume.SetUp failed for volume "gateway-token": serviceaccounts "x" not found'
        await warn(cluster, pod, "FailedMount", words, seconds_ago=5)
        told = await cluster.condition("evaluationruns", "run", "Progressing", "False", "PodNotStarted")
        assert f"FailedMount: {words}" in told["message"]
        assert "Next: mend what the event names" in told["message"]
        assert len(told["message"]) <= 1024
        # The wait counts for nothing: the same pod starts, and is the result.
        await cluster.finish(pod)
        await cluster.condition("evaluationruns", "run", "Complete", "True")
    (row,) = (await cluster.get("evaluationruns", "run"))["status"]["vector"]
    assert (row["scoreStrict"], row["tries"]) == ("1", 1)


async def given_to_a_node(cluster: Cluster, pod: Object, when: datetime) -> None:
    """What a scheduler does, at some time in the past."""
    path = f"/api/v1/namespaces/{cluster.namespace}/pods/{pod['metadata']['name']}"
    target = {"apiVersion": "v1", "kind": "Node", "name": "a-node"}
    await cluster.client.create(f"{path}/binding", {"target": target, "metadata": pod["metadata"]})
    taken = {"type": "PodScheduled", "status": "True", "lastTransitionTime": when.strftime(TIME)}
    await cluster.client.merge(f"{path}/status", {"status": {"conditions": [taken]}})


async def warn(cluster: Cluster, pod: Object, reason: str, message: str, seconds_ago: int) -> None:
    """A Warning Event about the pod."""
    when = (datetime.now(UTC) - timedelta(seconds=seconds_ago)).strftime(TIME)
    about = {name: pod["metadata"][name] for name in ("name", "namespace", "uid")}
    await cluster.client.create(
        f"/api/v1/namespaces/{cluster.namespace}/events",
        {
            "metadata": {"generateName": "test-", "namespace": cluster.namespace},
            "involvedObject": {"apiVersion": "v1", "kind": "Pod", **about},
            "type": "Warning",
            "reason": reason,
            "message": message,
            "firstTimestamp": when,
            "lastTimestamp": when,
            "count": 1,
        },
    )
