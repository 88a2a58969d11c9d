"""A real run with something to compare: one agent with two scripted models, and the reference solution."""

import copy
import json
import time
from typing import Any

from assay.api.evaluation_run import EvaluationRun
from assay.api.price_sheet import PriceSheet
from assay.core.prices import Prices
from demo.commands import apply
from demo.install import RUN_NAMESPACE, install, served_namespaces
from demo.kube import RUNS, Kube, has_condition
from demo.model_server import start_model_server
from demo.run import MANIFESTS, accept_variants, publish_examples, read_manifests, run_spec
from demo.runs import named
from demo.target import Target

RUN_SECONDS = 420
SHEET = "report-prices"
WEAK, WEAK_MODEL = "terminus-2-idle", "scripted/idle"
"""Its model says at once that the task is complete."""


def made_run(target: Target, kube: Kube) -> EvaluationRun:
    """The run once it has ended. Raises DemoError, WaitTimeout."""
    install(target, sorted({RUN_NAMESPACE, *served_namespaces()}))
    start_model_server(target)
    manifests = read_manifests(MANIFESTS)
    ledger = publish_examples(target, kube)
    weak = weak_variant(_named(manifests, "AgentVariant", "terminus-2"))
    accept_variants(kube, [*manifests, weak])
    sheet, digest = prices(_named(manifests, "ConfigMap", "made-up-prices"))
    apply([sheet])
    (example,) = [one for one in manifests if one["kind"] == "EvaluationRun"]
    name = f"report-{time.strftime('%H%M%S')}"
    more = {
        **run_spec(target),
        "repetitions": 2,
        "baseline": {"name": WEAK},
        "variants": [{"name": "terminus-2"}, {"name": WEAK}, {"name": "oracle"}],
        "priceSheet": {"digest": digest, "source": {"configMap": {"name": SHEET}}},
    }
    apply([named(example, name, ledger, more)])
    ended = kube.wait(RUNS, RUN_NAMESPACE, name, _ended, what="ended", seconds=RUN_SECONDS)
    return EvaluationRun.parse(ended)


def weak_variant(strong: dict[str, Any]) -> dict[str, Any]:
    """The same agent with the idle model."""
    found = copy.deepcopy(strong)
    found["metadata"]["name"] = WEAK
    found["spec"]["displayName"] = "Terminus 2, idle model"
    found["spec"]["models"][0]["name"] = f"openai/{WEAK_MODEL}"
    return found


def prices(example: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """The ConfigMap of the made-up prices with the idle model in it, and the sheet's digest."""
    found = copy.deepcopy(example)
    found["metadata"]["name"] = SHEET
    document = json.loads(example["data"]["prices.json"])
    (solver,) = document["models"]
    document["models"] = [{**solver, "model": WEAK_MODEL, "pricedAs": WEAK_MODEL}, solver]
    found["data"] = {"prices.json": json.dumps(document)}
    return found, Prices(PriceSheet.model_validate_json(json.dumps(document))).digest


def _named(manifests: list[dict[str, Any]], kind: str, name: str) -> dict[str, Any]:
    return next(one for one in manifests if one["kind"] == kind and one["metadata"]["name"] == name)


def _ended(found: dict[str, Any]) -> bool:
    return any(has_condition(kind)(found) for kind in ("Complete", "Failed"))
