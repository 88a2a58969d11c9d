"""A Prometheus of one's own: scrapes operator and gateways every second, and answers as Grafana asks it."""

import json
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import urlencode

START_SECONDS = 60

Sample = dict[str, Any]
"""As Prometheus' API gives it: `metric` and `value`, or `values` for a range."""


class QueryError(Exception):
    """Prometheus refused a query; the message is its own."""


@dataclass(frozen=True, slots=True)
class Prometheus:
    """A Prometheus at an address. Its methods raise QueryError."""

    url: str

    def now(self, query: str, at: float | None = None) -> list[Sample]:
        """The samples at a moment."""
        return self._ask("query", {"query": query, **({} if at is None else {"time": f"{at:.3f}"})})

    def over(self, query: str, start: float, end: float, points: int = 240) -> list[Sample]:
        """The samples over a time, at most `points` a series and the last of them at its end."""
        step = max(1.0, (end - start) / points)
        start = end - step * int((end - start) / step)
        times = {"start": f"{start:.3f}", "end": f"{end:.3f}", "step": f"{step:.3f}"}
        return self._ask("query_range", {"query": query, **times})

    def rule_health(self) -> dict[str, str]:
        """Health of each alert that is loaded: `ok` where it could be evaluated."""
        with urllib.request.urlopen(f"{self.url}/api/v1/rules", timeout=30) as answer:  # noqa: S310  as below
            groups = json.load(answer)["data"]["groups"]
        return {rule["name"]: rule["health"] for one in groups for rule in one["rules"]}

    def _ask(self, what: str, parameters: Mapping[str, str]) -> list[Sample]:
        # One of the addresses that a person gives, or our own on loopback.
        address = f"{self.url}/api/v1/{what}?{urlencode(parameters)}"
        try:
            with urllib.request.urlopen(address, timeout=30) as answer:  # noqa: S310
                found: list[Sample] = json.load(answer)["data"]["result"]
                return found
        except urllib.error.HTTPError as error:
            raise QueryError(f"{parameters['query']}: {error.read().decode()[:500]}") from error


@contextmanager
def scraping(
    folder: Path,
    jobs: Mapping[str, Sequence[str]],
    rules: Path | None = None,
    more: Mapping[str, Any] = MappingProxyType({}),
) -> Iterator[Prometheus]:
    """Scrapes each job's addresses and evaluates `rules` every second; ready when each has been scraped.

    `more` are settings of every scrape, as Prometheus names them.
    """
    listed = [
        {"job_name": name, "static_configs": [{"targets": list(targets)}], **more}
        for name, targets in jobs.items()
    ]
    settings = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "scrape_configs": listed,
        "rule_files": [str(rules)] if rules else [],
    }
    (folder / "prometheus.yml").write_text(json.dumps(settings))
    listen = f"127.0.0.1:{_free_port()}"
    command = [
        "prometheus",
        f"--config.file={folder}/prometheus.yml",
        f"--storage.tsdb.path={folder}/data",
        f"--web.listen-address={listen}",
    ]
    with (folder / "log").open("w") as log, subprocess.Popen(command, stderr=log, stdout=log) as process:
        try:
            made = Prometheus(f"http://{listen}")
            _await_scrapes(made, process, sum(map(len, jobs.values())), folder / "log")
            yield made
        finally:
            process.terminate()


def _await_scrapes(made: Prometheus, process: "subprocess.Popen[bytes]", targets: int, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"prometheus ended: {log.read_text()[-2000:]}")
        try:
            if sum(sample["value"][1] == "1" for sample in made.now("up")) == targets:
                return
        except (OSError, QueryError):
            pass  # it does not listen yet, or answers 503 as long as it reads its storage
        time.sleep(0.3)
    raise RuntimeError(f"prometheus has not scraped {targets} targets in {START_SECONDS} s: see {log}")


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
