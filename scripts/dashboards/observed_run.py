"""A real run of the example tasks, scraped by a real Prometheus from its first Job on."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from assay.api.evaluation_run import EvaluationRun
from demo.commands import apply
from demo.install import CHART, RUN_NAMESPACE, SYSTEM_NAMESPACE
from demo.kube import PODS, RUNS, Kube, WaitTimeout, has_condition
from demo.model_server import start_model_server
from demo.run import MANIFESTS, accept_variants, publish_examples, read_manifests, run_spec
from demo.runs import named
from demo.target import Target
from scripts.dashboards.prometheus import Prometheus, scraping
from scripts.dashboards.questions import View

ALERTS = CHART / "alerts" / "assay.rules.yaml"
RUN_SECONDS = 420
SCRAPE_SECONDS = 60
SHOWN_SECONDS = 5


@dataclass(frozen=True, slots=True)
class Observed:
    """The run once it has ended, and who scraped it."""

    prometheus: Prometheus
    run: EvaluationRun
    view: View


@contextmanager
def observed_run(target: Target, kube: Kube, scratch: Path, repetitions: int = 1) -> Iterator[Observed]:
    """Makes the run and yields when it is Complete. Assay is installed. Raises DemoError, WaitTimeout."""
    start_model_server(target)
    manifests = read_manifests(MANIFESTS)
    ledger = publish_examples(target, kube)
    accept_variants(kube, manifests)
    apply([one for one in manifests if one["kind"] == "ConfigMap"])
    (example,) = [one for one in manifests if one["kind"] == "EvaluationRun"]
    name = f"observed-{datetime.now(UTC):%H%M%S}"
    more = {**run_spec(target), "repetitions": repetitions, "parallelism": 4}
    with scraping(scratch, _addresses(kube), ALERTS) as prometheus:
        begun = time.time()
        apply([named(example, name, ledger, more)])
        ended = kube.wait(
            RUNS, RUN_NAMESPACE, name, has_condition("Complete"), what="Complete", seconds=RUN_SECONDS
        )
        _await_end(prometheus, name)
        view = View(RUN_NAMESPACE, name, begun, time.time())
        yield Observed(prometheus, EvaluationRun.parse(ended), view)


def _await_end(prometheus: Prometheus, run: str) -> None:
    """Until scrapes have shown the run's end for some seconds, so that charts show it, and its report."""
    deadline = time.monotonic() + SCRAPE_SECONDS
    ended = f'min_over_time(assay_run_condition{{run="{run}",condition="Complete"}}[{SHOWN_SECONDS}s]) == 1'
    query = f"{ended} and on (run) assay_run_priced_attempts"
    while not prometheus.now(query):
        if time.monotonic() > deadline:
            raise WaitTimeout(f"no scrape has shown the end of run {run} in {SCRAPE_SECONDS} s")
        time.sleep(0.3)


def _addresses(kube: Kube) -> dict[str, list[str]]:
    """Where operator and gateways are scraped: their pods that run."""
    places = {"operator": (SYSTEM_NAMESPACE, 9090), "gateway": (RUN_NAMESPACE, 8080)}
    found = {}
    for component, (namespace, port) in places.items():
        pods = kube.items(PODS, namespace, f"app.kubernetes.io/component={component}")
        running = [pod for pod in pods if pod["status"].get("phase") == "Running"]
        found[component] = [f"{pod['status']['podIP']}:{port}" for pod in running]
    return found
