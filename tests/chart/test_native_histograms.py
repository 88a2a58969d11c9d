"""What `metrics.serviceMonitor.nativeHistograms` asks of Prometheus, asked of a real one."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from assay.adapters.metrics import CONTENT_TYPE, OperatorMetrics
from assay.adapters.run_metrics import RunView
from assay.api.outcome import OutcomeClass
from assay.core.record import AttemptKey, TryRecord
from assay.core.run_totals import RunTotals
from scripts.dashboards.prometheus import scraping
from tests.fixtures.http_answers import answering
from tests.operator_kit.builders import NOW, run_object

SECONDS = (4.0, 20.0, 20.0, 900.0)
ASKED = {"convert_classic_histograms_to_nhcb": True, "always_scrape_classic_histograms": True}
"""The settings that the Prometheus operator makes of the ServiceMonitor's fields."""


@pytest.fixture
def operator() -> Iterator[str]:
    """Address of the metrics of a run whose tries took `SECONDS`."""
    run, metrics = run_object(), OperatorMetrics()
    totals = RunTotals(run.spec)
    totals.take(
        {
            f"job-{number}": TryRecord(
                AttemptKey("ledger", f"task-{number}", "oracle", 0),
                1,
                f"job-{number}",
                OutcomeClass.GRADED,
                "",
                NOW,
                agent_seconds=seconds,
            )
            for number, seconds in enumerate(SECONDS)
        }
    )
    metrics.run_series.show(RunView(run, totals=totals))

    with answering(lambda _: metrics.render(), content_type=CONTENT_TYPE) as url:
        yield url.removeprefix("http://")


def converts() -> bool:
    """Whether the Prometheus on the path is 3.4 or newer; Debian 12 has 2.42."""
    told = subprocess.run(["prometheus", "--version"], capture_output=True, text=True, check=True)
    found = re.search(r"version (\d+)\.(\d+)", told.stdout + told.stderr)
    return found is not None and (int(found[1]), int(found[2])) >= (3, 4)


def test_histograms_are_native_and_the_dashboards_keep_their_buckets(operator: str, tmp_path: Path) -> None:
    if not converts():
        pytest.skip("the prometheus on PATH is older than 3.4 and converts no histograms")
    with scraping(tmp_path, {"operator": [operator]}, more=ASKED) as prometheus:
        agent = 'assay_run_phase_seconds{phase="agent"}'
        (count,) = prometheus.now(f"histogram_count({agent})")
        (total,) = prometheus.now(f"histogram_sum({agent})")
        (median,) = prometheus.now(f"histogram_quantile(0.5, {agent})")
        (classic,) = prometheus.now('assay_run_phase_seconds_bucket{phase="agent",le="60.0"}')
        assert float(count["value"][1]) == len(SECONDS)
        assert float(total["value"][1]) == sum(SECONDS)
        assert 15 < float(median["value"][1]) <= 60, "the bucket of the second and third"
        assert float(classic["value"][1]) == 3
