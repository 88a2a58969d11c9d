"""What stops a run on a real API server, and what lets it go on: faults, budgets, persons, restarts."""

import asyncio
import json
from datetime import date
from decimal import Decimal

import pytest

from assay.adapters.list_prices import build_price_sheet
from assay.api.evidence import EvidenceFile, TokenCounts
from assay.api.outcome import OutcomeClass
from assay.core.canonical import digest_of, digest_of_bytes
from assay.core.names import try_prefix
from tests.api_operator.conftest import Operator, Wishes
from tests.api_operator.test_recovery import finish_all
from tests.operator_kit.cluster import Cluster, Object, try_spec, until
from tests.operator_kit.evidence import manifest_object
from tests.operator_kit.journal import recorded

pytestmark = pytest.mark.api

MODEL = "claude-opus-5-5"


async def test_a_run_whose_first_attempts_fail_alike_stops_until_a_person_has_mended_it(
    cluster: Cluster, operator: Operator, wishes: Wishes
) -> None:
    await wishes.ledger(tasks=12)
    await wishes.variant()
    await wishes.run(parallelism=10)
    async with operator.running():
        for pod in await cluster.live_pods("run", 10):
            await cluster.finish(
                pod, OutcomeClass.SETUP_FAILED, None, reason="npm: no route to host", tokens=TokenCounts()
            )
        told = await cluster.condition("evaluationruns", "run", "Suspended", "True", "CircuitOpen")
        assert "the first 10 attempts all ended as SetupFailed" in told["message"]
        assert "no route to host" in told["message"]
    async with operator.running():  # nothing of it was in the memory of the process
        await passes(operator, 2)
        await cluster.condition("evaluationruns", "run", "Suspended", "True", "CircuitOpen")
        made = [one["metadata"]["name"] for one in await cluster.jobs("run")]
        assert not [name for name in made if name.endswith("-t2")], "no attempt has spent its limit on it"
        await cluster.change("evaluationruns", "run", {"suspend": True})
        await cluster.condition("evaluationruns", "run", "Suspended", "True", "Requested")
        await cluster.change("evaluationruns", "run", {"suspend": False})
        await finish_all(cluster, "run")
    outcomes = (await cluster.get("evaluationruns", "run"))["status"]["outcomes"]
    assert {"outcome": "Graded", "tries": 12} in outcomes


async def test_a_stop_ends_live_tries_and_going_on_makes_them_again(
    cluster: Cluster, operator: Operator, wishes: Wishes
) -> None:
    await wishes.ledger(tasks=3)
    await wishes.variant()
    await wishes.run(parallelism=2, retryLimits={"disruption": 0})
    async with operator.running():
        await cluster.live_pods("run", 2)
        await cluster.change("evaluationruns", "run", {"suspend": True, "suspendPolicy": "Stop"})

        async def nothing_left() -> bool:
            return not await cluster.jobs("run") and not await cluster.pods("run")

        await until("every Job and pod is gone", nothing_left)
        stopped = await recorded(cluster)
        assert [one.outcome for one in stopped] == [OutcomeClass.STOPPED] * 2
        await cluster.change("evaluationruns", "run", {"suspend": False})
        await finish_all(cluster, "run")
    assert len(await recorded(cluster)) == 5
    status = (await cluster.get("evaluationruns", "run"))["status"]
    assert (status["attempts"]["recorded"], status["attempts"]["invalid"]) == (3, 0)


async def test_a_budget_stops_dispatch_and_may_be_raised(
    cluster: Cluster, operator: Operator, wishes: Wishes
) -> None:
    await wishes.ledger(tasks=3)
    await wishes.variant()
    await wishes.run(parallelism=3, budget={"attempts": 2})
    async with operator.running():
        pods = await cluster.live_pods("run", 2)
        for pod in pods:
            await cluster.finish(pod)
        told = await cluster.condition("evaluationruns", "run", "Suspended", "True", "BudgetExhausted")
        assert told["message"].startswith("spec.budget.attempts: 2 of 3 attempts have begun, 2 may")
        assert len(pods) == 2
        await cluster.change("evaluationruns", "run", {"budget": {"attempts": 3}})
        await finish_all(cluster, "run")
    assert len(await recorded(cluster)) == 3


async def test_money_that_is_spent_stops_dispatch_as_the_calls_in_the_evidence_say(
    cluster: Cluster, operator: Operator, wishes: Wishes
) -> None:
    sheet = build_price_sheet([MODEL], date(2026, 11, 30))
    body = {"metadata": {"name": "prices"}, "data": {"prices.json": sheet.model_dump_json(by_alias=True)}}
    await cluster.client.create(f"/api/v1/namespaces/{cluster.namespace}/configmaps", body)
    provider = {"endpoint": "http://models.test", "api": "AnthropicMessages"}
    models = [{"role": "main", "name": MODEL, "provider": provider}]
    await cluster.create("agentvariants", "paid", {"agent": {"name": "terminus-2"}, "models": models})
    await wishes.ledger(tasks=3)
    await wishes.run(
        variants=[{"name": "paid"}],
        parallelism=1,
        budget={"usd": "0.50"},
        priceSheet={"digest": digest_of(sheet), "source": {"configMap": {"name": "prices"}}},
    )
    async with operator.running():
        (pod,) = await cluster.live_pods("run", 1)
        await asyncio.to_thread(finish_paid, cluster, pod)
        await cluster.end(pod)
        told = await cluster.condition("evaluationruns", "run", "Suspended", "True", "BudgetExhausted")
    (one, *more) = [one for one in await recorded(cluster) if one.outcome is OutcomeClass.GRADED]
    assert more == []
    assert one.cost_usd is not None
    assert one.cost_usd >= Decimal("0.50")
    assert told["message"].startswith(f"spec.budget.usd: {one.cost_usd:.2f} of 0.50 USD are spent")


def finish_paid(cluster: Cluster, pod: Object) -> None:
    """What a runner leaves of a graded try with one call of a million tokens."""
    spec, uid = try_spec(pod), pod["metadata"]["uid"]
    call = {
        "sequence": 1,
        "path": "/v1/messages",
        "status": 200,
        "startedAt": "2026-11-30T12:00:00Z",
        "modelAsked": MODEL,
        "modelAnswered": MODEL,
        "tokens": {"input": 1_000_000, "cacheRead": 0, "cacheWrite5M": 0, "cacheWrite1H": 0, "output": 1000},
    }
    content = json.dumps(call).encode() + b"\n"
    name = "calls/000001.jsonl"
    cluster.store.put_bytes(cluster.bucket, try_prefix(spec.storage, spec.identity, uid) + name, content)
    file = EvidenceFile(path=name, size=len(content), sha256=digest_of_bytes(content))
    key, body = manifest_object(spec, uid, OutcomeClass.GRADED, 1.0, [file], model_calls=1)
    cluster.store.put_bytes(cluster.bucket, key, body)


async def test_a_retry_tries_what_has_no_score_and_names_the_report_that_it_supersedes(
    cluster: Cluster, operator: Operator, wishes: Wishes
) -> None:
    await wishes.ledger(tasks=3)
    await wishes.variant()
    await wishes.run(parallelism=3, retryLimits={"infrastructure": 0}, minCoveragePercent=90)
    async with operator.running():
        passed, zero, lost = await cluster.live_pods("run", 3)
        await cluster.finish(passed)
        await cluster.finish(zero, reward=0.0)
        await cluster.finish(lost, OutcomeClass.SETUP_FAILED, None)
        await cluster.condition("evaluationruns", "run", "Failed", "True", "CoverageTooLow")
        first = (await cluster.get("evaluationruns", "run"))["status"]["report"]
        before = {one.job_name: one for one in await recorded(cluster)}
    async with operator.running():
        await cluster.change("evaluationruns", "run", {"retry": {"unscoredOnly": 1}})
        (again,) = await cluster.live_pods("run", 1)
        await cluster.finish(again, reward=1.0)
        await cluster.condition("evaluationruns", "run", "Complete", "True", "AllRecorded")
        await cluster.condition("evaluationruns", "run", "Failed", "False")
    second = (await cluster.get("evaluationruns", "run"))["status"]["report"]
    assert (first["revision"], second["revision"]) == (1, 2)
    assert second["supersedes"] == first["digest"]
    assert first["key"] != second["key"], "the first report stays where it is"
    after = {one.job_name: one for one in await recorded(cluster)}
    assert before.items() < after.items()
    assert len(after) == 4


async def test_a_quiet_run_and_a_finished_one_cause_no_writes(
    cluster: Cluster, operator: Operator, wishes: Wishes
) -> None:
    await wishes.ledger(tasks=1)
    await wishes.variant()
    await wishes.run()
    async with operator.running(ASSAY_RESYNC_SECONDS="1", ASSAY_STATUS_SECONDS="0"):
        (pod,) = await cluster.live_pods("run", 1)

        async def shown() -> bool:
            status = (await cluster.get("evaluationruns", "run")).get("status", {})
            return bool(status.get("attempts", {}).get("live") == 1)

        await until("the live try is in the status", shown)
        await passes(operator, 2)
        before = await writes(operator)
        await passes(operator, 4)
        assert await writes(operator) == before
        await cluster.finish(pod)
        await cluster.condition("evaluationruns", "run", "Complete", "True")
        version = (await cluster.get("evaluationruns", "run"))["metadata"]["resourceVersion"]
    async with operator.running():
        await until("the operator works", lambda: operator.metric("assay_lease_held"))
        assert (await cluster.get("evaluationruns", "run"))["metadata"]["resourceVersion"] == version


async def test_a_busy_run_writes_its_status_for_what_happened_not_for_each_attempt(
    cluster: Cluster, operator: Operator, wishes: Wishes
) -> None:
    await wishes.ledger(tasks=20)
    await wishes.variant()
    await wishes.run(parallelism=2)
    async with operator.running(ASSAY_STATUS_SECONDS="60"):
        await finish_all(cluster, "run")
        assert await operator.metric('assay_api_requests_total{code="200",verb="PATCH"}') < 10


async def writes(operator: Operator) -> float:
    """Requests that change something, as the operator counts them; the Lease's renewals are PUTs."""
    verbs = ("PATCH", "POST", "DELETE")
    return sum([await operator.metric("assay_api_requests_total", f'verb="{verb}"') for verb in verbs])


async def passes(operator: Operator, count: int) -> None:
    """Wait until the operator has made that many more passes over runs."""
    start = await operator.metric("assay_reconcile_seconds_count")

    async def made() -> bool:
        return await operator.metric("assay_reconcile_seconds_count") >= start + count

    await until(f"{count} passes", made)
