"""Metrics of a real operator over a run's life: a restart moves nothing, a deletion takes all (BAR 10)."""

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.api_operator.conftest import Operator, Wishes
from tests.api_operator.test_recovery import finish_all
from tests.operator_kit.cluster import Cluster, until

pytestmark = pytest.mark.api

Samples = dict[str, float]


async def scrape(operator: Operator) -> Samples:
    """Samples by name and labels; none while the process does not listen yet."""
    url = f"http://127.0.0.1:{operator.ports['ASSAY_METRICS_PORT']}/metrics"
    try:
        async with aiohttp.ClientSession() as session, session.get(url) as answer:
            text = await answer.text()
    except aiohttp.ClientError:
        return {}
    return {
        f"{sample.name}{sorted(sample.labels.items())}": sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def of_runs(operator: Operator) -> Samples:
    return {name: value for name, value in (await scrape(operator)).items() if name.startswith("assay_run_")}


def tries(samples: Samples, outcome: str = "Graded") -> float:
    """Tries of that class over all rows; -1 while the journal has not been read."""
    found = [
        value
        for name, value in samples.items()
        if name.startswith("assay_run_tries_total") and f"'{outcome}'" in name
    ]
    return sum(found) if found else -1


async def test_a_restart_moves_no_series_of_a_run_that_has_ended(
    cluster: Cluster, operator: Operator, wishes: Wishes
) -> None:
    await wishes.ledger(tasks=3)
    for name in ("oracle", "other"):
        await wishes.variant(name)
    variants = [{"name": "oracle"}, {"name": "other"}]
    await wishes.run(parallelism=3, variants=variants, baseline={"name": "oracle"})
    async with operator.running():
        await finish_all(cluster, "run")

        async def shown() -> Samples | None:
            samples = await of_runs(operator)
            ended = any(name.startswith("assay_run_end_time_seconds") for name in samples)
            return samples if ended and tries(samples) == 6 else None

        before = await until("six graded tries of an ended run", shown)
    assert any(name.startswith("assay_run_priced_attempts") for name in before), "the report is shown"
    async with operator.running():
        await until("the same series as before the restart", lambda: _equal(operator, before))
        await cluster.delete("evaluationruns", "run")
        await until("the deleted run has no series", lambda: _equal(operator, {}))


async def test_counters_go_on_where_they_were(cluster: Cluster, operator: Operator, wishes: Wishes) -> None:
    await wishes.ledger(tasks=4)
    await wishes.variant()
    await wishes.run(parallelism=2)
    process = await operator.start()
    for pod in await cluster.live_pods("run", 2):
        await cluster.finish(pod)

    async def two() -> bool:
        return tries(await of_runs(operator)) == 2

    await until("two tries are counted", two)
    process.kill()
    await process.wait()
    async with operator.running():
        seen = -1.0
        while seen < 4:
            now = tries(await of_runs(operator))
            # Not there yet, or as many as before: never from 0 again.
            assert now == -1 or now >= max(2.0, seen)
            seen = max(seen, now)
            for pod in await cluster.pods("run"):
                if pod["status"]["phase"] == "Pending" and "deletionTimestamp" not in pod["metadata"]:
                    await cluster.finish(pod)


async def test_requests_jobs_and_the_lease_are_told(
    cluster: Cluster, operator: Operator, wishes: Wishes
) -> None:
    await wishes.ledger()
    await wishes.variant()
    await wishes.run()
    async with operator.running():
        await finish_all(cluster, "run")

        async def told() -> bool:
            samples = await scrape(operator)
            created = samples.get("assay_jobs_created_total[]")
            removed = samples.get("assay_jobs_removed_total[]")
            return (created, removed, samples.get("assay_lease_held[]")) == (1, 1, 1)

        await until("one Job created and removed by the holder of the Lease", told)
        samples = await scrape(operator)
    assert samples["assay_api_requests_total[('code', '201'), ('verb', 'POST')]"] >= 1
    assert samples["assay_api_requests_total[('code', '200'), ('verb', 'WATCH')]"] >= 2
    assert samples["assay_reconcile_lag_seconds_count[]"] >= 1


async def _equal(operator: Operator, wanted: Samples) -> bool:
    return await of_runs(operator) == wanted
