"""A real run of the example tasks, scraped by a real Prometheus from its first Job on, its model priced."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

from assay.api.evaluation_run import EvaluationRun
from assay.api.price_sheet import ModelPrices, PriceSheet, PriceSource, Rates
from assay.core.prices import Prices
from demo.commands import apply
from demo.install import RUN_NAMESPACE, SYSTEM_NAMESPACE
from demo.kube import PODS, RUNS, Kube, Object, has_condition
from demo.model_server import start_model_server
from demo.run import MANIFESTS, accept_variants, publish_examples, read_manifests, run_spec
from demo.runs import named
from demo.target import Target
from scripts.dashboards.prometheus import Prometheus, scraping
from scripts.dashboards.questions import View

RUN_SECONDS = 420
SETTLE_SECONDS = 3.0
"""Scrapes that still come after the end."""
MODEL = "scripted/solver"


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
    (example,) = [one for one in manifests if one["kind"] == "EvaluationRun"]
    name = f"observed-{datetime.now(UTC):%H%M%S}"
    sheet = _price_sheet()
    more = {
        **run_spec(target),
        "repetitions": repetitions,
        "parallelism": 4,
        "priceSheet": {"digest": Prices(sheet).digest, "source": {"configMap": {"name": name}}},
    }
    with scraping(scratch, _addresses(kube)) as prometheus:
        begun = time.time()
        apply([_config_map(name, sheet), named(example, name, ledger, more)])
        ended = kube.wait(
            RUNS, RUN_NAMESPACE, name, has_condition("Complete"), what="Complete", seconds=RUN_SECONDS
        )
        time.sleep(SETTLE_SECONDS)
        view = View(RUN_NAMESPACE, name, begun, time.time())
        yield Observed(prometheus, EvaluationRun.parse(ended), view)


def _addresses(kube: Kube) -> dict[str, list[str]]:
    """Where operator and gateways are scraped: their pods that run."""
    places = {"operator": (SYSTEM_NAMESPACE, 9090), "gateway": (RUN_NAMESPACE, 8080)}
    found = {}
    for component, (namespace, port) in places.items():
        pods = kube.items(PODS, namespace, f"app.kubernetes.io/component={component}")
        running = [pod for pod in pods if pod["status"].get("phase") == "Running"]
        found[component] = [f"{pod['status']['podIP']}:{port}" for pod in running]
    return found


def _price_sheet() -> PriceSheet:
    """Prices for the scripted model, invented as it is."""
    rates = Rates(input=Decimal("1.25"), output=Decimal(10))
    return PriceSheet(
        valid_on=datetime.now(UTC).date(),
        source=PriceSource(
            package="invented-for-a-scripted-model", version="1", data_digest=f"sha256:{0:064}"
        ),
        models=[
            ModelPrices(model=model, priced_as=MODEL, provider="scripted", rates=rates)
            for model in (MODEL, f"openai/{MODEL}")
        ],
    )


def _config_map(name: str, sheet: PriceSheet) -> Object:
    content = sheet.model_dump_json(by_alias=True, exclude_none=True)
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": RUN_NAMESPACE},
        "data": {"prices.json": content},
    }
