"""The operator's figures, as a real Prometheus scrapes them."""

import json
import socket
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from demo.install import SYSTEM_NAMESPACE
from tests.e2e.bench import Bench, RunHandle
from tests.e2e.tasks import Task
from tests.e2e.trouble import OPERATOR, ready_pod

Query = Callable[[str], list[dict[str, Any]]]


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.fixture(scope="module")
def finished(bench: Bench) -> RunHandle:
    run = bench.run(bench.ledger(Task("measured")), [bench.variant("oracle"), bench.variant("nop")])
    run.completed()
    return run


@pytest.fixture(scope="module")
def query(bench: Bench, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Query]:
    """Asks a Prometheus that scrapes the operator's pod every second, from the node."""
    folder: Path = tmp_path_factory.mktemp("prometheus")
    address = ready_pod(bench, SYSTEM_NAMESPACE, OPERATOR)["status"]["podIP"]
    job = {"job_name": "operator", "static_configs": [{"targets": [f"{address}:9090"]}]}
    settings = {"global": {"scrape_interval": "1s"}, "scrape_configs": [job]}
    (folder / "prometheus.yml").write_text(json.dumps(settings))
    listen = f"127.0.0.1:{_free_port()}"
    command = [
        "prometheus",
        f"--config.file={folder}/prometheus.yml",
        f"--storage.tsdb.path={folder}/data",
        f"--web.listen-address={listen}",
    ]
    with (folder / "log").open("w") as log, subprocess.Popen(command, stderr=log, stdout=log) as process:

        def ask(expression: str) -> list[dict[str, Any]]:
            url = f"http://{listen}/api/v1/query?{urlencode({'query': expression})}"
            with urllib.request.urlopen(url, timeout=10) as answer:
                result: list[dict[str, Any]] = json.load(answer)["data"]["result"]
                return result

        def scraped() -> bool:
            assert process.poll() is None, (folder / "log").read_text()[-3000:]
            try:
                return any(sample["value"][1] == "1" for sample in ask("up"))
            except OSError:
                return False

        try:
            bench.until(scraped, "Prometheus has scraped the operator")
            yield ask
        finally:
            process.terminate()


def test_a_finished_run_is_counted_by_outcome(bench: Bench, query: Query, finished: RunHandle) -> None:
    def counted() -> dict[tuple[str, str], str]:
        samples = query(f'assay_run_tries{{run="{finished.name}"}}')
        return {
            (found["metric"]["variant"], found["metric"]["outcome"]): found["value"][1] for found in samples
        }

    variants = [row.variant for row in finished.now().status.vector]
    expected = {(variant, "Graded"): "1" for variant in variants}
    bench.until(lambda: counted() == expected, f"one graded try for each of {variants}")


def test_nothing_is_live_when_the_run_is_over(bench: Bench, query: Query, finished: RunHandle) -> None:
    def live() -> set[str]:
        return {found["value"][1] for found in query(f'assay_run_live_jobs{{run="{finished.name}"}}')}

    bench.until(lambda: live() == {"0"}, "no live Job is counted")


def test_reconciling_is_timed(query: Query, finished: RunHandle) -> None:
    (count,) = query("sum(assay_reconcile_seconds_count)")
    assert float(count["value"][1]) > 0


def test_no_series_names_a_task_or_a_pod(query: Query, finished: RunHandle) -> None:
    names = {label for sample in query('{__name__=~"assay_.*"}') for label in sample["metric"]}
    of_prometheus = {"__name__", "instance", "job", "le"}
    assert names - of_prometheus <= {"namespace", "run", "ledger", "variant", "outcome", "state", "resource"}
