"""A baseline that scores otherwise than in the reference run: whoever looks, wherever, must be told."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from assay.api.ledgerfile import Plan
from assay.api.report import Report
from demo.install import CHART
from scripts.dashboards.prometheus import Sample, scraping
from tests.api_operator.conftest import Operator, Wishes
from tests.cli.conftest import run as assay
from tests.operator_kit.cluster import Cluster, try_spec, until

pytestmark = pytest.mark.api

ALERTS = CHART / "alerts" / "assay.rules.yaml"
LIMIT = 4 << 20
TASKS, REPETITIONS = 2, 4
STRONG = {"control": 1.0, "contender": 1.0}
WEAK = {"control": 0.0, "contender": 1.0}
"""What each variant scores. On the second day the baseline solves nothing that it solved on the first."""
SAID = "ledger: the baseline drifted, its score moved"


@dataclass(frozen=True)
class Ended:
    """What a run left."""

    name: str
    status: dict[str, Any]
    report: Report
    page: str

    def condition(self, type_: str) -> dict[str, Any]:
        return next(one for one in self.status["conditions"] if one["type"] == type_)


async def run_to_its_end(cluster: Cluster, wishes: Wishes, name: str, scores: dict[str, float]) -> Ended:
    """A run whose variants score as told."""
    attempts = TASKS * REPETITIONS * len(scores)
    variants = [{"name": variant} for variant in scores]
    await wishes.run(
        name,
        variants=variants,
        baseline={"name": "control"},
        repetitions=REPETITIONS,
        parallelism=attempts,
    )
    for pod in await cluster.live_pods(name, attempts):
        await cluster.finish(pod, reward=scores[try_spec(pod).identity.variant])
    await cluster.condition("evaluationruns", name, "Complete", "True", "AllRecorded")
    status = (await cluster.get("evaluationruns", name))["status"]
    place = status["report"]
    report, page = (cluster.store.get_bytes(place["bucket"], place[key], LIMIT) for key in ("key", "htmlKey"))
    return Ended(name, status, Report.model_validate_json(report), page.decode())


@pytest.fixture
async def days(cluster: Cluster, operator: Operator, wishes: Wishes) -> tuple[Ended, Ended]:
    """The ledger's first run, and one whose baseline drifted."""
    await wishes.ledger(tasks=TASKS, where="s3", plan=Plan(repetitions=REPETITIONS))
    for variant in STRONG:
        await wishes.variant(variant, agent="terminus-2")
    async with operator.running():
        first = await run_to_its_end(cluster, wishes, "monday", STRONG)
        return first, await run_to_its_end(cluster, wishes, "tuesday", WEAK)


async def test_report_page_condition_and_terminal_say_it_and_rank_nothing(
    cluster: Cluster, operator: Operator, days: tuple[Ended, Ended], tmp_path: Path
) -> None:
    stable, drifted = days
    # scripts/screenshots/drift.py takes its picture.
    (tmp_path / "tuesday.html").write_text(drifted.page)
    assert not stable.report.ranking.stopped
    assert "drifted" not in stable.condition("Publishable")["message"]
    assert "No ranks" not in stable.page

    (drift,) = drifted.report.drift
    assert (drift.shift, drift.attempts_reference, drift.attempts) == (-1.0, 8, 8)
    assert drifted.report.ranking.stopped
    assert drifted.report.ranking.reasons[0].startswith(SAID)
    assert drifted.report.reasons_against[0].startswith(SAID)
    assert f"No ranks: {SAID}" in drifted.page
    assert "Drift of control since the reference run" in drifted.page

    publishable = drifted.condition("Publishable")
    assert publishable["status"] == "False"
    assert publishable["message"].startswith(SAID), "a status has room for some reasons only"

    async def said(*arguments: str) -> str:
        there = ("-n", cluster.namespace)
        done = await asyncio.to_thread(assay, *arguments, *there, environment=operator.s3.environment)
        assert done.exit_code == 0, done.stderr
        return done.stdout

    assert SAID not in await said("show", "monday")
    assert (await said("show", "tuesday")).startswith(f"NOT PUBLISHABLE: {SAID}")
    printed = await said("report", "tuesday")
    assert printed.index(SAID) < printed.index("Drift of baseline control since the reference run")


async def test_the_metric_moves_and_the_alert_fires(
    operator: Operator, days: tuple[Ended, Ended], tmp_path: Path
) -> None:
    """Read by an operator that was started anew: drift is a fact about the run, not of a process."""
    async with operator.running():
        port = operator.ports["ASSAY_METRICS_PORT"]

        async def shown() -> bool:
            return await operator.metric("assay_run_baseline_drift_p_value", 'run="tuesday"') > 0

        await until("the drift of a run that ended in another process", shown)
        with scraping(tmp_path, {"operator": [f"127.0.0.1:{port}"]}, ALERTS) as prometheus:

            async def firing() -> list[Sample]:
                return prometheus.now('ALERTS{alertname="AssayBaselineDrift",alertstate="firing"}')

            (alert,) = await until("the alert", firing)
            (shift,) = prometheus.now("assay_run_baseline_drift_ratio")
    assert (alert["metric"]["run"], alert["metric"]["ledger"]) == ("tuesday", "ledger")
    assert (shift["metric"]["run"], shift["value"][1]) == ("tuesday", "-1")
