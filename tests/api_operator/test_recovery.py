"""Nothing lost, nothing twice: restarts, deletions, retries, stops."""

import asyncio
from collections import Counter
from functools import partial

import aiohttp
import pytest

from assay.api.outcome import OutcomeClass
from tests.api_operator.conftest import Operator, Wishes
from tests.operator_kit.cluster import Cluster, Object, try_spec, until
from tests.operator_kit.journal import recorded, tries_by_task

pytestmark = pytest.mark.api


async def finish_all(cluster: Cluster, run: str) -> None:
    """End every pod of the run as graded until the run is complete."""
    while True:
        status = (await cluster.get("evaluationruns", run)).get("status", {})
        if any(one["type"] == "Complete" and one["status"] == "True" for one in status.get("conditions", [])):
            return
        for pod in await cluster.pods(run):
            if (
                pod["status"]["phase"] in ("Pending", "Running")
                and "deletionTimestamp" not in pod["metadata"]
            ):
                await cluster.finish(pod)
        await asyncio.sleep(0.2)


async def test_an_operator_that_is_killed_makes_nothing_twice(
    cluster: Cluster, operator: Operator, wishes: Wishes
) -> None:
    await wishes.ledger(tasks=8)
    await wishes.variant()
    await wishes.run(parallelism=4)
    process = await operator.start()
    await cluster.live_pods("run", 2)
    process.kill()
    await process.wait()
    for pod in (await cluster.pods("run"))[:2]:
        await cluster.finish(pod)  # while nobody watches
    async with operator.running():
        await finish_all(cluster, "run")
    assert tries_by_task(await recorded(cluster)) == Counter(
        {(f"task-{number}", 1): 1 for number in range(8)}
    )
    assert await cluster.jobs("run") == []


async def test_a_result_in_s3_counts_although_its_job_is_gone(
    cluster: Cluster, operator: Operator, wishes: Wishes
) -> None:
    await wishes.ledger(tasks=2)
    await wishes.variant()
    await wishes.run(parallelism=2)
    process = await operator.start()
    kept, lost = await cluster.live_pods("run", 2)
    await cluster.finish(lost, reward=0.0)
    process.kill()
    await process.wait()
    name = try_spec(lost).identity.job_name
    await cluster.delete_job(name)
    await cluster.gone(f"/apis/batch/v1/namespaces/{cluster.namespace}/jobs/{name}")
    async with operator.running():
        await cluster.finish(kept)
        await cluster.condition("evaluationruns", "run", "Complete", "True")
    assert len(await recorded(cluster)) == 2
    (row,) = (await cluster.get("evaluationruns", "run"))["status"]["vector"]
    assert (row["scoreStrict"], row["valid"], row["tries"]) == ("0.5", 2, 2)


async def test_a_job_that_is_deleted_by_hand_is_a_disruption_on_record(
    cluster: Cluster, operator: Operator, wishes: Wishes
) -> None:
    await wishes.ledger()
    await wishes.variant()
    await wishes.run()
    async with operator.running():
        (first,) = await cluster.live_pods("run", 1)
        await cluster.delete_job(try_spec(first).identity.job_name)

        async def again() -> Object | None:
            pods = await cluster.pods("run")
            return next((one for one in pods if one["metadata"]["uid"] != first["metadata"]["uid"]), None)

        second = await until("a new pod", again)
        assert try_spec(second).identity.try_number == 2
        await cluster.finish(second)
        await cluster.condition("evaluationruns", "run", "Complete", "True")
    tries = sorted((one.try_number, one.outcome, one.reason) for one in await recorded(cluster))
    assert [one[:2] for one in tries] == [(1, OutcomeClass.DISRUPTED), (2, OutcomeClass.GRADED)]
    assert "the Job was deleted" in tries[0][2]


async def test_retries_stop_at_the_limit_across_restarts(
    cluster: Cluster, operator: Operator, wishes: Wishes
) -> None:
    """BAR 2: the operator is replaced after every failure, and still exactly 1 + 2 Jobs are made."""
    await wishes.ledger()
    await wishes.variant()
    await wishes.run(retryLimits={"infrastructure": 2})
    for number in (1, 2, 3):
        async with operator.running():
            (pod,) = await cluster.live_pods("run", 1)
            assert try_spec(pod).identity.try_number == number
            await cluster.finish(pod, OutcomeClass.SETUP_FAILED, None, reason="apt-get timed out")
            await until("the try is seen", partial(_tries, cluster, number))
    async with operator.running():
        found = await cluster.condition("evaluationruns", "run", "Failed", "True", "NoValidAttempt")
        assert "apt-get timed out" in found["message"]
    assert [one.try_number for one in await recorded(cluster)] == [1, 2, 3]
    assert await cluster.jobs("run") == []
    status = (await cluster.get("evaluationruns", "run"))["status"]
    assert status["attempts"]["invalid"] == 1
    assert status["outcomes"] == [{"outcome": "SetupFailed", "tries": 3}]
    assert status["vector"][0].get("scoreStrict") is None


async def test_a_failed_run_goes_on_when_it_is_asked_to_try_what_has_no_score(
    cluster: Cluster, operator: Operator, wishes: Wishes
) -> None:
    await wishes.ledger(tasks=2)
    await wishes.variant()
    await wishes.run(retryLimits={"infrastructure": 0})
    async with operator.running():
        lost, scored = await cluster.live_pods("run", 2)
        await cluster.finish(lost, OutcomeClass.SETUP_FAILED, None, reason="apt-get timed out")
        await cluster.finish(scored, reward=0.0)
        await cluster.condition("evaluationruns", "run", "Failed", "True", "CoverageTooLow")
        await cluster.change("evaluationruns", "run", {"retry": {"unscoredOnly": 1}})
        (again,) = await cluster.live_pods("run", 1)
        assert try_spec(again).identity.try_number == 2
        assert try_spec(again).task.id == try_spec(lost).task.id, "a zero is a score"
        status = (await cluster.get("evaluationruns", "run"))["status"]
        assert "completedAt" not in status
        await cluster.finish(again)
        await cluster.condition("evaluationruns", "run", "Complete", "True")
        await cluster.condition("evaluationruns", "run", "Failed", "False")


async def _tries(cluster: Cluster, number: int) -> bool:
    status = (await cluster.get("evaluationruns", "run")).get("status", {})
    return bool(sum(one["tries"] for one in status.get("outcomes", [])) == number)


async def test_an_agent_out_of_memory_is_zero_and_not_tried_again(
    cluster: Cluster, operator: Operator, wishes: Wishes
) -> None:
    await wishes.ledger()
    await wishes.variant()
    await wishes.run()
    async with operator.running():
        (pod,) = await cluster.live_pods("run", 1)
        await cluster.end(pod, 137, "OOMKilled")
        await cluster.condition("evaluationruns", "run", "Complete", "True")
    (record,) = await recorded(cluster)
    assert record.outcome is OutcomeClass.AGENT_OOM, "kept beyond pod and Job"
    (row,) = (await cluster.get("evaluationruns", "run"))["status"]["vector"]
    assert (row["scoreStrict"], row["valid"]) == ("0", 1)


async def test_a_disruption_is_tried_again_outside_the_agents_budget(
    cluster: Cluster, operator: Operator, wishes: Wishes
) -> None:
    await wishes.ledger()
    await wishes.variant()
    await wishes.run(retryLimits={"infrastructure": 0})
    disrupted = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    async with operator.running():
        (first,) = await cluster.live_pods("run", 1)
        await cluster.end(first, 137, "Error", conditions=[disrupted])

        async def again() -> Object | None:
            pods = await cluster.pods("run")
            return next((one for one in pods if try_spec(one).identity.try_number == 2), None)

        await cluster.finish(await until("the second try", again))
        await cluster.condition("evaluationruns", "run", "Complete", "True")
    status = (await cluster.get("evaluationruns", "run"))["status"]
    assert {one["outcome"]: one["tries"] for one in status["outcomes"]} == {"Graded": 1, "Disrupted": 1}


async def test_a_try_that_cannot_start_is_ended_with_the_cause(
    cluster: Cluster, operator: Operator, wishes: Wishes
) -> None:
    await wishes.ledger()
    await wishes.variant()
    await wishes.run(deadlines={"pendingSeconds": 10}, retryLimits={"infrastructure": 0})
    waiting = {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "assay.test/task"'}
    async with operator.running():
        (pod,) = await cluster.live_pods("run", 1)
        await cluster.scheduled(pod)
        state = {"name": "environment", "image": "x", "imageID": "", "ready": False, "restartCount": 0}
        path = f"/api/v1/namespaces/{cluster.namespace}/pods/{pod['metadata']['name']}/status"
        body = {"status": {"initContainerStatuses": [state | {"state": {"waiting": waiting}}]}}
        await cluster.client.merge(path, body)
        await cluster.condition("evaluationruns", "run", "Progressing", "False", "ImageUnavailable")
        found = await cluster.condition("evaluationruns", "run", "Failed", "True", "NoValidAttempt")
        assert "Back-off pulling image" in found["message"]
    (record,) = await recorded(cluster)
    assert record.outcome is OutcomeClass.INFRA_START
    assert await cluster.jobs("run") == []
    (failure,) = (await cluster.get("evaluationruns", "run"))["status"]["recentFailures"]
    assert failure["outcome"] == "InfraStart"


async def test_a_provider_that_refuses_the_key_stops_the_run_until_a_person_lets_it_go_on(
    cluster: Cluster, operator: Operator, wishes: Wishes
) -> None:
    await wishes.ledger(tasks=4)
    await wishes.variant()
    await wishes.run(parallelism=1)
    async with operator.running():
        (pod,) = await cluster.live_pods("run", 1)
        reason = "the last model call ended with 401: invalid key"
        await cluster.finish(pod, OutcomeClass.PROVIDER_AUTH, None, reason=reason)
        found = await cluster.condition("evaluationruns", "run", "Suspended", "True", "ProviderAuth")
        assert "invalid key" in found["message"]
        assert "secretRef" in found["message"]
        # A slot is filled again as soon as its pod ends, so one more Job may be there, and no third one.
        assert len(await cluster.jobs("run")) <= 2
        await cluster.change("evaluationruns", "run", {"suspend": True})
        await cluster.condition("evaluationruns", "run", "Suspended", "True", "Requested")
        await cluster.change("evaluationruns", "run", {"suspend": False})
        await cluster.condition("evaluationruns", "run", "Suspended", "False")
        await finish_all(cluster, "run")


async def test_suspension_stops_new_tries_and_parallelism_changes_at_once(
    cluster: Cluster, operator: Operator, wishes: Wishes
) -> None:
    await wishes.ledger(tasks=4)
    await wishes.variant()
    await wishes.run(parallelism=1, suspend=True)
    async with operator.running():
        await cluster.condition("evaluationruns", "run", "Suspended", "True", "Requested")
        assert await cluster.jobs("run") == []
        await cluster.change("evaluationruns", "run", {"suspend": False})
        await cluster.live_pods("run", 1)
        await cluster.change("evaluationruns", "run", {"parallelism": 3})
        await cluster.live_pods("run", 3)
        await finish_all(cluster, "run")
    assert len(await recorded(cluster)) == 4


async def test_a_deleted_run_leaves_no_job_and_no_series(
    cluster: Cluster, operator: Operator, wishes: Wishes
) -> None:
    await wishes.ledger(tasks=2)
    await wishes.variant()
    await wishes.run(parallelism=2)
    async with operator.running():
        pods = await cluster.live_pods("run", 2)
        assert 'assay_run_live_jobs{namespace="' in await metrics(operator)
        await cluster.delete("evaluationruns", "run")
        for pod in pods:
            job = try_spec(pod).identity.job_name
            await cluster.gone(f"/apis/batch/v1/namespaces/{cluster.namespace}/jobs/{job}")

        async def forgotten() -> bool:
            return 'run="run"' not in await metrics(operator)

        await until("the run's series are gone", forgotten)


@pytest.mark.parametrize(
    ("replaced", "condition", "reason"),
    [
        ("ledgers", "LedgersVerified", "LedgerReplaced"),
        ("agentvariants", "VariantsResolved", "VariantReplaced"),
    ],
)
async def test_what_a_run_names_is_replaced_and_its_last_try_stays_on_record(
    cluster: Cluster, operator: Operator, wishes: Wishes, replaced: str, condition: str, reason: str
) -> None:
    await wishes.ledger(tasks=2, where="s3")
    await wishes.variant()
    await wishes.run(parallelism=1)
    async with operator.running():
        (pod,) = await cluster.live_pods("run", 1)
        name = "ledger" if replaced == "ledgers" else "oracle"
        spec = (await cluster.get(replaced, name))["spec"]
        await cluster.delete(replaced, name)
        await cluster.create(replaced, name, spec)
        found = await cluster.condition("evaluationruns", "run", condition, "False", reason)
        for words in ("its live tries finish and stay on record", "delete this run and create a new one"):
            assert words in found["message"]
        await cluster.finish(pod)
        await cluster.gone(
            f"/apis/batch/v1/namespaces/{cluster.namespace}/jobs/{try_spec(pod).identity.job_name}"
        )
        assert await cluster.jobs("run") == [], "no other try is made"
    (record,) = await recorded(cluster)
    assert (record.outcome, record.reward) == (OutcomeClass.GRADED, 1)


async def test_an_operator_with_other_rules_makes_no_try_and_loses_none(
    cluster: Cluster, operator: Operator, wishes: Wishes
) -> None:
    await wishes.ledger(tasks=2)
    await wishes.variant()
    await wishes.run(parallelism=1)
    async with operator.running():
        (pod,) = await cluster.live_pods("run", 1)
    ours = (await cluster.get("evaluationruns", "run"))["status"]["resolved"]["outcomeTable"]
    await pinned(cluster, "sha256:" + "b" * 64)
    async with operator.running():
        told = await cluster.condition("evaluationruns", "run", "Progressing", "False", "OutcomeTableChanged")
        assert ours in told["message"]
        await cluster.finish(pod)
        await cluster.gone(
            f"/apis/batch/v1/namespaces/{cluster.namespace}/jobs/{try_spec(pod).identity.job_name}"
        )
        assert await cluster.jobs("run") == []
    assert [one.outcome for one in await recorded(cluster)] == [OutcomeClass.GRADED]
    await pinned(cluster, ours)
    async with operator.running():
        (pod,) = await cluster.live_pods("run", 1)
        await cluster.finish(pod)
        await cluster.condition("evaluationruns", "run", "Complete", "True")
    assert len(await recorded(cluster)) == 2, "the version that it began with goes on"


async def pinned(cluster: Cluster, digest: str) -> None:
    """The run has started under the rules of this digest."""
    path = f"/apis/assay.dev/v1alpha1/namespaces/{cluster.namespace}/evaluationruns/run/status"
    await cluster.client.merge(path, {"status": {"resolved": {"outcomeTable": digest}}})


async def test_a_quiet_run_causes_no_writes(cluster: Cluster, operator: Operator, wishes: Wishes) -> None:
    await wishes.ledger()
    await wishes.variant()
    await wishes.run()
    async with operator.running():
        await cluster.live_pods("run", 1)

        async def settled() -> Object | None:
            before = await cluster.get("evaluationruns", "run")
            passes = await passed(operator)

            async def two_more() -> bool:
                return await passed(operator) >= passes + 2

            await until("two more passes", two_more)
            after = await cluster.get("evaluationruns", "run")
            same = before["metadata"]["resourceVersion"] == after["metadata"]["resourceVersion"]
            return after if same else None

        await until("two passes without a write", settled)


async def passed(operator: Operator) -> float:
    for line in (await metrics(operator)).splitlines():
        if line.startswith("assay_reconcile_seconds_count"):
            return float(line.split()[-1])
    return 0.0


async def metrics(operator: Operator) -> str:
    url = f"http://127.0.0.1:{operator.ports['ASSAY_METRICS_PORT']}/metrics"
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return await answer.text()
