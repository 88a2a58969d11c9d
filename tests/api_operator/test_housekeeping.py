"""What goes by itself: runs after their time, and objects that lost their owner (cases.md A14, A15, C6)."""

import uuid

import pytest

from assay.api import labels
from tests.api_operator.conftest import Operator, Wishes
from tests.operator_kit.cluster import Cluster, Object, until

pytestmark = pytest.mark.api


async def test_a_run_goes_after_its_time_and_its_evidence_stays(
    cluster: Cluster, operator: Operator, wishes: Wishes
) -> None:
    await wishes.ledger()
    await wishes.variant()
    uid = (await wishes.run(ttlSecondsAfterFinished=1))["metadata"]["uid"]
    await wishes.run("kept")
    async with operator.running():
        for name in ("run", "kept"):
            (pod,) = await cluster.live_pods(name, 1)
            await cluster.finish(pod)
        await cluster.condition("evaluationruns", "kept", "Complete", "True")
        path = f"/apis/assay.dev/v1alpha1/namespaces/{cluster.namespace}/evaluationruns/run"
        await cluster.gone(path)
    found = cluster.store.client.list_objects_v2(Bucket=cluster.bucket, Prefix=f"runs/{uid}/")
    keys = [one["Key"] for one in found["Contents"]]
    for part in ("/journal/segments/", "/report/1/report.json", "/manifest.json"):
        assert any(part in key for key in keys), part
    assert (await cluster.get("evaluationruns", "kept"))["metadata"]["uid"]


async def test_orphans_are_swept_and_counted_and_nothing_else(
    cluster: Cluster, operator: Operator, wishes: Wishes
) -> None:
    await wishes.ledger()
    await wishes.variant()
    await wishes.run()
    orphan = await job(cluster, "orphan", {labels.RUN_UID: str(uuid.uuid4())})
    foreign = await job(cluster, "foreign", {}, managed_by="somebody")
    async with operator.running(ASSAY_SWEEP_SECONDS="1"):
        (pod,) = await cluster.live_pods("run", 1)
        path = f"/apis/batch/v1/namespaces/{cluster.namespace}/jobs"
        await cluster.gone(f"{path}/{orphan['metadata']['name']}")

        async def counted() -> bool:
            return await operator.metric("assay_orphans_removed_total", 'kind="Job"') == 1

        await until("the Job is counted", counted)
        told = await removal(cluster)
        assert (told["involvedObject"]["kind"], told["involvedObject"]["name"]) == ("Job", "orphan")
        assert "1 Job removed, e.g. Job orphan" in told["message"]
        assert orphan["metadata"]["labels"][labels.RUN_UID] in told["message"]
        kept = await cluster.client.get(f"{path}/{foreign['metadata']['name']}")
        assert kept["metadata"]["uid"] == foreign["metadata"]["uid"]
        assert [one["metadata"]["uid"] for one in await cluster.pods("run")] == [pod["metadata"]["uid"]]


async def test_a_job_of_a_run_that_was_deleted_without_it_is_swept(
    cluster: Cluster, operator: Operator, wishes: Wishes
) -> None:
    await wishes.ledger()
    await wishes.variant()
    await wishes.run()
    async with operator.running(ASSAY_SWEEP_SECONDS="1"):
        (pod,) = await cluster.live_pods("run", 1)
        run = f"/apis/assay.dev/v1alpha1/namespaces/{cluster.namespace}/evaluationruns/run"
        await cluster.client.request("DELETE", run, {"propagationPolicy": "Orphan"})
        await cluster.gone(f"/api/v1/namespaces/{cluster.namespace}/pods/{pod['metadata']['name']}")
        found = await cluster.client.get(f"/apis/batch/v1/namespaces/{cluster.namespace}/jobs")
        assert found["items"] == []


async def test_a_pod_without_a_job_is_swept_and_its_run_is_told(
    cluster: Cluster, operator: Operator, wishes: Wishes
) -> None:
    await wishes.ledger()
    await wishes.variant()
    uid = (await wishes.run())["metadata"]["uid"]
    async with operator.running(ASSAY_SWEEP_SECONDS="1"):
        await cluster.live_pods("run", 1)
        metadata = {"name": "stray", "labels": attempt_labels({labels.RUN_UID: uid})}
        spec = {"containers": [{"name": "x", "image": "x"}], "nodeSelector": {"no": "node"}}
        path = f"/api/v1/namespaces/{cluster.namespace}/pods"
        await cluster.client.create(path, {"metadata": metadata, "spec": spec})
        await cluster.gone(f"{path}/stray")
        told = await removal(cluster)
    assert (told["involvedObject"]["kind"], told["involvedObject"]["uid"]) == ("EvaluationRun", uid)
    assert "Pod stray" in told["message"]


async def removal(cluster: Cluster) -> Object:
    """The Event about what was swept."""

    async def there() -> Object | None:
        path = f"/api/v1/namespaces/{cluster.namespace}/events"
        found = await cluster.client.get(path, {"fieldSelector": "reason=OrphansRemoved"})
        return next(iter(found["items"]), None)

    return await until("the Event", there)


def attempt_labels(more: dict[str, str], managed_by: str = "assay") -> dict[str, str]:
    """The labels that say that an object is of an attempt."""
    return {labels.MANAGED_BY: managed_by, labels.ROLE: labels.ROLE_ATTEMPT, **more}


async def job(cluster: Cluster, name: str, more: dict[str, str], managed_by: str = "assay") -> Object:
    """A Job without an owner that says it is of an attempt."""
    container = {"name": "x", "image": "x"}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    metadata = {
        "name": name,
        "labels": attempt_labels(more, managed_by),
    }
    return await cluster.client.create(
        f"/apis/batch/v1/namespaces/{cluster.namespace}/jobs",
        {"metadata": metadata, "spec": {"template": template}},
    )
