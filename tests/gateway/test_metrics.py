"""What the gateway exports keeps to Prometheus' conventions and does not grow with what it serves."""

import subprocess

from prometheus_client import generate_latest

from assay.gateway.metrics import Metrics


def test_promtool_finds_no_fault_in_names_units_and_help() -> None:
    metrics = Metrics()
    metrics.requests.labels("evidence", "2xx").inc()
    metrics.model_calls.labels("OpenAIChat", "429").inc()
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=generate_latest(metrics.registry), capture_output=True
    )
    assert (done.returncode, done.stderr.decode()) == (0, "")
