"""How long a scrape of the operator takes, and how that grows with attempts and with rows.

    python -m benchmarks.scrape [--attempts 100 10000 100000]

One run of 2, 8 and 100 rows (ledgers times variants; 100 is the most that a run may have). The second arm is
the very same samples made by prometheus_client's own families, in the same process: why those of runs are
written by hand. Bar: 50 ms at 100,000 attempts, at every number of rows.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial

from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from assay.adapters.metrics import OperatorMetrics
from assay.adapters.run_metrics import RunView
from assay.api.evaluation_run import EvaluationRun
from assay.api.evaluation_run_status import AttemptCounts, VectorRow
from assay.api.outcome import OutcomeClass
from assay.core.record import AttemptKey, TryRecord, TryTokens
from assay.core.run_totals import RunTotals, rows_of
from tests.operator_kit.builders import DIGEST, NOW, run_object

BAR_SECONDS = 0.05
ROUNDS = 15


def records(run: EvaluationRun, attempts: int) -> dict[str, TryRecord]:
    """Tries, spread over the rows."""
    rows = list(rows_of(run.spec))
    made = {}
    for number in range(attempts):
        ledger, variant = rows[number % len(rows)]
        key = AttemptKey(ledger, f"task-{number}", variant, 0)
        made[f"job-{number}"] = TryRecord(
            key,
            1,
            f"job-{number}",
            OutcomeClass.GRADED,
            "",
            NOW + timedelta(seconds=number),
            setup_seconds=9.5,
            agent_seconds=431.07,
            verifier_seconds=30.2,
            upload_seconds=1.1,
            total_seconds=520.5,
            tokens=TryTokens(input=120_000, cache_read=100_000, output=9_000),
            model_calls=41,
        )
    return made


def shown(rows: int, attempts: int) -> tuple[OperatorMetrics, float]:
    """Metrics with one run, and the seconds that counting its records took."""
    variants = min(rows, 50)
    run = run_object(
        ledgers=[{"name": f"ledger-{number}"} for number in range(rows // variants)],
        variants=[{"name": f"variant-{number}"} for number in range(variants)],
    )
    each = attempts // rows
    vector = [
        VectorRow(
            ledger=ledger,
            variant=variant,
            planned=each,
            valid=each,
            coverage="1",
            score_strict="0.5",
            score_valid="0.5",
            ledger_digest=DIGEST,
        )
        for ledger, variant in rows_of(run.spec)
    ]
    counts = AttemptCounts(planned=attempts, recorded=attempts)
    status = run.status.model_copy(update={"attempts": counts, "vector": vector})
    run = run.model_copy(update={"status": status})
    totals, made = RunTotals(run.spec), records(run, attempts)
    begun = time.perf_counter()
    totals.take(made)
    seconds = time.perf_counter() - begun
    metrics = OperatorMetrics()
    metrics.run_series.show(RunView(run, totals=totals))
    return metrics, seconds


class _Same(Collector):
    """The families of a scrape, as prometheus_client keeps them."""

    def __init__(self, text: str) -> None:
        self._families = list(text_string_to_metric_families(text))

    def collect(self) -> Iterator[Metric]:
        return iter(self._families)


def median_of(render: Callable[[], object]) -> float:
    """Median seconds of a call."""
    times = []
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        render()
        times.append(time.perf_counter() - begun)
    return statistics.median(times)


def main() -> int:
    """Print the table; 1 if a scrape is over the bar."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--attempts", type=int, nargs="+", default=[100, 10_000, 100_000])
    over = False
    columns = ("rows", "attempts", "samples", "scrape ms", "by library ms", "counting s")
    print("".join(f"{name:>15}" for name in columns))
    for rows in (2, 8, 100):
        for attempts in parser.parse_args().attempts:
            metrics, counting = shown(rows, attempts)
            text = metrics.run_series.render()
            registry = CollectorRegistry(auto_describe=False)
            registry.register(_Same(text))
            seconds, library = median_of(metrics.render), median_of(partial(generate_latest, registry))
            over |= seconds > BAR_SECONDS
            size = sum(not line.startswith("#") for line in text.splitlines())
            numbers = (seconds * 1e3, library * 1e3, counting)
            print(f"{rows:>15}{attempts:>15}{size:>15}" + "".join(f"{one:>15.2f}" for one in numbers))
    return int(over)


if __name__ == "__main__":
    sys.exit(main())
