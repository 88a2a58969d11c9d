"""The example run, made on the cluster: what the pictures of report and terminal show."""

import time
from typing import Any

from assay.api.evaluation_run import EvaluationRun
from demo.commands import apply
from demo.install import RUN_NAMESPACE, install, served_namespaces
from demo.kube import RUNS, Kube, has_condition
from demo.model_server import start_model_server
from demo.run import MANIFESTS, accept_variants, publish_examples, read_manifests, run_spec
from demo.runs import named
from demo.target import Target

RUN_SECONDS = 420


def made_run(target: Target, kube: Kube) -> EvaluationRun:
    """The run once it has ended. Raises DemoError, WaitTimeout."""
    install(target, sorted({RUN_NAMESPACE, *served_namespaces()}))
    start_model_server(target)
    manifests = read_manifests(MANIFESTS)
    ledger = publish_examples(target, kube)
    accept_variants(kube, manifests)
    apply([one for one in manifests if one["kind"] == "ConfigMap"])
    (example,) = [one for one in manifests if one["kind"] == "EvaluationRun"]
    name = f"report-{time.strftime('%H%M%S')}"
    apply([named(example, name, ledger, run_spec(target))])
    ended = kube.wait(RUNS, RUN_NAMESPACE, name, _ended, what="ended", seconds=RUN_SECONDS)
    return EvaluationRun.parse(ended)


def _ended(found: dict[str, Any]) -> bool:
    return any(has_condition(kind)(found) for kind in ("Complete", "Failed"))
