"""Bad input that the API server admits: the run waits, makes no Job, and says what is missing."""

import asyncio

import pytest

from assay.core.reconcile import name_of
from assay.core.record import AttemptKey
from tests.api_operator.conftest import Operator, Wishes
from tests.operator_kit.cluster import Cluster, until

pytestmark = pytest.mark.api


async def test_a_ledger_that_does_not_exist_is_named_and_awaited(
    cluster: Cluster, operator: Operator, wishes: Wishes
) -> None:
    await wishes.variant()
    await wishes.run()
    async with operator.running():
        found = await cluster.condition("evaluationruns", "run", "LedgersVerified", "False", "LedgerNotFound")
        assert "Ledger ledger does not exist" in found["message"]
        await cluster.condition("evaluationruns", "run", "Progressing", "False", "WaitingForLedgers")
        assert await cluster.jobs("run") == []
        await wishes.ledger()
        await cluster.live_pods("run", 1)
        await cluster.condition("evaluationruns", "run", "LedgersVerified", "True")


async def test_a_variant_that_does_not_exist_is_named_and_awaited(
    cluster: Cluster, operator: Operator, wishes: Wishes
) -> None:
    await wishes.ledger()
    await wishes.run()
    async with operator.running():
        found = await cluster.condition(
            "evaluationruns", "run", "VariantsResolved", "False", "VariantNotFound"
        )
        assert "AgentVariant oracle does not exist" in found["message"]
        assert await cluster.jobs("run") == []
        await wishes.variant()
        await cluster.live_pods("run", 1)


async def test_a_ledger_with_another_digest_starts_no_job(
    cluster: Cluster, operator: Operator, wishes: Wishes
) -> None:
    wrong = "sha256:" + "0" * 64
    await wishes.ledger(digest=wrong)
    await wishes.variant()
    await wishes.run()
    async with operator.running():
        ledger = await cluster.condition("ledgers", "ledger", "Verified", "False", "DigestMismatch")
        assert wrong in ledger["message"]
        run = await cluster.condition("evaluationruns", "run", "LedgersVerified", "False", "DigestMismatch")
        assert wrong in run["message"]
        status = (await cluster.get("evaluationruns", "run"))["status"]
        assert "startedAt" not in status, "a run that never started may still be corrected"
        assert await cluster.jobs("run") == []


async def test_a_ledger_in_s3_waits_for_the_store_and_loses_nothing(
    cluster: Cluster, operator: Operator, wishes: Wishes
) -> None:
    await wishes.ledger(where="s3")
    await wishes.variant()
    await wishes.run()
    async with operator.running(AWS_SECRET_ACCESS_KEY="wrong", ASSAY_S3_TRIES="1"):
        found = await cluster.condition("ledgers", "ledger", "Verified", "False", "SourceUnavailable")
        assert "AWS_SECRET_ACCESS_KEY" in found["message"]
        await cluster.condition("evaluationruns", "run", "LedgersVerified", "False", "LedgerNotVerified")
        assert await cluster.jobs("run") == []
    async with operator.running():
        await cluster.condition("ledgers", "ledger", "Verified", "True", "DigestMatches")
        await cluster.live_pods("run", 1)


async def test_a_bucket_that_does_not_exist_is_named_and_awaited(
    cluster: Cluster, operator: Operator, wishes: Wishes
) -> None:
    await wishes.ledger()
    await wishes.variant()
    other = f"{cluster.bucket}-later"
    await wishes.run(storage={"s3": {"bucket": other}})
    async with operator.running():
        found = await cluster.condition("evaluationruns", "run", "Progressing", "False", "WaitingForStorage")
        assert other in found["message"]
        assert await cluster.jobs("run") == []
        await asyncio.to_thread(cluster.store.client.create_bucket, Bucket=other)
        await cluster.live_pods("run", 1)


async def test_a_namespace_without_gateway_is_named(
    cluster: Cluster, operator: Operator, wishes: Wishes
) -> None:
    path = f"/api/v1/namespaces/{cluster.namespace}/services/assay-gateway"
    await cluster.client.request("DELETE", path)
    await wishes.ledger()
    await wishes.variant()
    await wishes.run()
    async with operator.running():
        found = await cluster.condition("evaluationruns", "run", "Progressing", "False", "WaitingForGateway")
        assert "runNamespaces" in found["message"]
        assert await cluster.jobs("run") == []


async def test_more_retries_than_the_plan_allows_end_the_run_before_it_starts(
    cluster: Cluster, operator: Operator, wishes: Wishes
) -> None:
    await wishes.ledger()
    await wishes.variant()
    await wishes.run(retryLimits={"infrastructure": 9})
    async with operator.running():
        found = await cluster.condition("evaluationruns", "run", "Failed", "True", "PlanViolated")
        assert "spec.retryLimits.infrastructure is 9" in found["message"]
        assert await cluster.jobs("run") == []


async def test_a_namespace_that_refuses_the_pods_says_why(
    cluster: Cluster, operator: Operator, wishes: Wishes
) -> None:
    await cluster.client.merge(
        f"/api/v1/namespaces/{cluster.namespace}",
        {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}},
    )
    await wishes.ledger()
    await wishes.variant()
    await wishes.run()
    async with operator.running():
        found = await cluster.condition("evaluationruns", "run", "Progressing", "False", "PodsRefused")
        assert 'violates PodSecurity "restricted' in found["message"]


async def test_attempt_pods_meet_the_security_level_baseline(
    cluster: Cluster, operator: Operator, wishes: Wishes
) -> None:
    await cluster.client.merge(
        f"/api/v1/namespaces/{cluster.namespace}",
        {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "baseline"}}},
    )
    await wishes.ledger()
    await wishes.variant()
    await wishes.run()
    async with operator.running():
        assert len(await cluster.live_pods("run", 1)) == 1


async def test_a_quota_holds_the_run_back_and_nothing_is_counted(
    cluster: Cluster, operator: Operator, wishes: Wishes
) -> None:
    quotas = f"/api/v1/namespaces/{cluster.namespace}/resourcequotas"
    await cluster.client.create(
        quotas, {"metadata": {"name": "small"}, "spec": {"hard": {"count/pods": "0", "pods": "0"}}}
    )
    await wishes.ledger()
    await wishes.variant()
    await wishes.run()
    async with operator.running():
        found = await cluster.condition("evaluationruns", "run", "Progressing", "False", "WaitingForQuota")
        assert "exceeded quota: small" in found["message"]
        status = (await cluster.get("evaluationruns", "run"))["status"]
        assert (status["attempts"]["live"], status["attempts"]["invalid"]) == (1, 0)


async def test_a_foreign_job_of_the_same_name_is_left_alone_and_named(
    cluster: Cluster, operator: Operator, wishes: Wishes
) -> None:
    await wishes.ledger()
    run = await wishes.run()
    uid = run["metadata"]["uid"]
    name = name_of(uid, AttemptKey("ledger", "task-0", "oracle", 0), 1)
    container = {"name": "x", "image": "x"}
    foreign = await cluster.client.create(
        f"/apis/batch/v1/namespaces/{cluster.namespace}/jobs",
        {
            "metadata": {"name": name},
            "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
        },
    )
    await wishes.variant()
    async with operator.running():

        async def told() -> bool:
            conditions = (await cluster.get("evaluationruns", "run")).get("status", {}).get("conditions", [])
            return any(name in one.get("message", "") for one in conditions)

        await until("the run names the foreign Job", told)
    kept = await cluster.client.get(f"/apis/batch/v1/namespaces/{cluster.namespace}/jobs/{name}")
    assert kept["metadata"]["uid"] == foreign["metadata"]["uid"]


async def test_a_setting_that_is_wrong_ends_the_operator_with_its_name(operator: Operator) -> None:
    process = await operator.start(ASSAY_RUNNER_IMAGE="assay.test/runner:latest")
    assert await process.wait() == 2
    assert "ASSAY_RUNNER_IMAGE" in operator.log.read_text()
