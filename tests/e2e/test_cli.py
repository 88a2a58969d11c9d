"""`kubectl assay` against the real cluster: in a pipe, on a terminal, through an API server that is slow."""

import csv
import io
import json
import os
import pty
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from demo.kube import RUNS
from tests.e2e.bench import SECONDS, Bench, RunHandle
from tests.e2e.tasks import LEAVE_ANSWER, Task

ASSAY = str(Path(sys.executable).with_name("assay"))

HOSTILE = json.dumps(
    {
        "schema_version": "ATIF-v1.7",
        "agent": {"name": "hostile\x1b]0;owned\x07", "version": "1"},
        "steps": [
            {"step_id": 1, "source": "agent", "message": "\x1b[2Jwiped \u202etxet\u202c [bold]no markup[/]"}
        ],
    }
)


class Cli:
    """The command as a user runs it, beside whatever else is in the environment."""

    def __init__(self, bench: Bench) -> None:
        self.environment = {**os.environ, **bench.target.storage.environment()}

    def __call__(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [ASSAY, *arguments],
            capture_output=True,
            text=True,
            env=self.environment | environment,
            timeout=SECONDS,
            check=False,
        )

    def on_terminal(self, *arguments: str) -> tuple[int, str]:
        """Exit status and everything that the terminal was sent."""
        ours, theirs = pty.openpty()
        seen = bytearray()
        with subprocess.Popen(
            [ASSAY, *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**self.environment, "TERM": "xterm-256color", "COLUMNS": "160"},
        ) as process:
            os.close(theirs)
            try:
                while chunk := os.read(ours, 4096):
                    seen += chunk
            except OSError:
                pass  # EIO: the last process that had the terminal has ended.
            finally:
                os.close(ours)
        return process.returncode, seen.decode(errors="replace")


@pytest.fixture(scope="module")
def cli(bench: Bench) -> Cli:
    return Cli(bench)


@pytest.fixture(scope="module")
def started(bench: Bench) -> RunHandle:
    """A run of one task, whose solution leaves a hostile trajectory, with an oracle and a nop."""
    leave = f"{LEAVE_ANSWER}\nmkdir -p /logs/agent\ncat > /logs/agent/trajectory.json <<'END'\n{HOSTILE}\nEND"
    ledger = bench.ledger(Task("told", solve=leave))
    return bench.run(ledger, [bench.variant("oracle"), bench.variant("nop")])


@pytest.fixture(scope="module")
def watched(cli: Cli, started: RunHandle) -> tuple[int, str]:
    """What `watch` showed on a terminal until the run was complete."""
    return cli.on_terminal("watch", started.name, "-n", started.namespace)


@pytest.fixture(scope="module")
def finished(started: RunHandle, watched: tuple[int, str]) -> RunHandle:
    started.completed()
    return started


@pytest.fixture(scope="module")
def hopeless(bench: Bench) -> RunHandle:
    """A run that ends without any valid attempt: its image is nowhere."""
    missing = f"assay.test/nowhere@sha256:{'0' * 64}"
    return bench.run(
        bench.ledger(Task("hopeless", image=missing)),
        bench.variant("oracle"),
        deadlines={"pendingSeconds": 5},
        retryLimits={"infrastructure": 0},
    )


def rows(text: str, delimiter: str = "\t") -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text), delimiter=delimiter))


def variant_of(run: RunHandle, agent: str) -> str:
    return next(one.name for one in run.now().spec.variants if one.name.startswith(agent))


def test_watch_draws_a_bar_and_ends_with_the_run(watched: tuple[int, str], finished: RunHandle) -> None:
    status, seen = watched
    assert status == 0, seen
    assert finished.name in seen
    assert "100 %" in seen
    assert "2 of 2 attempts recorded" in seen


def test_watch_in_a_pipe_is_lines(cli: Cli, finished: RunHandle) -> None:
    done = cli("watch", finished.name, "-n", finished.namespace)
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    assert "2 of 2 attempts recorded, 0 live  Finished" in done.stdout.splitlines()[-1]


def test_list_says_how_far_each_run_is(cli: Cli, finished: RunHandle) -> None:
    done = cli("list", "-n", finished.namespace)
    mine = next(row for row in rows(done.stdout) if row["RUN"] == finished.name)
    assert (mine["STATE"], mine["RECORDED"], mine["PLANNED"], mine["INVALID"]) == ("Complete", "2", "2", "0")
    everywhere = cli("list", "-A", "--json")
    assert finished.name in {run["metadata"]["name"] for run in json.loads(everywhere.stdout)}


def test_show_tells_the_vector_and_where_everything_lies(cli: Cli, finished: RunHandle) -> None:
    done = cli("show", finished.name, "-n", finished.namespace)
    current = finished.now()
    assert done.returncode == 0
    assert done.stdout.startswith("NOT PUBLISHABLE")
    assert variant_of(finished, "oracle") in done.stdout
    assert current.status.report is not None
    assert current.status.report.digest in done.stdout
    assert f"s3://{current.spec.storage.s3.bucket}/{current.status.evidence_prefix}" in done.stdout
    told = json.loads(cli("show", finished.name, "-n", finished.namespace, "--json").stdout)
    assert told["status"]["attempts"] == current.status.attempts.model_dump(mode="json")


def test_a_run_without_any_valid_attempt_is_a_failure_for_scripts(cli: Cli, hopeless: RunHandle) -> None:
    done = cli("watch", hopeless.name, "-n", hopeless.namespace)
    assert done.returncode == 4, done.stdout
    for command in ("show", "results"):
        assert cli(command, hopeless.name, "-n", hopeless.namespace).returncode == 4
    told = cli("explain", hopeless.name, "hopeless", variant_of(hopeless, "oracle"), "-n", hopeless.namespace)
    assert "invalid, it lowers coverage" in told.stdout
    assert "InfraStart" in told.stdout
    assert "infrastructure is 0" in told.stdout


def test_explain_leads_to_the_evidence(cli: Cli, finished: RunHandle) -> None:
    done = cli("explain", finished.name, "told", variant_of(finished, "oracle"), "-n", finished.namespace)
    assert done.returncode == 0, done.stderr
    record = next(one for one in finished.recorded() if one.key.variant == variant_of(finished, "oracle"))
    assert "scored 1: try 1 is the result" in done.stdout
    assert "try 1: Graded, reward 1, retained" in done.stdout
    assert record.manifest_digest in done.stdout
    assert record.pod_uid in done.stdout
    unknown = cli("explain", finished.name, "tolt", variant_of(finished, "oracle"), "-n", finished.namespace)
    assert unknown.returncode == 1
    assert "assay-tests/told" in unknown.stderr, "the closest task is named"


def test_results_are_one_row_an_attempt(cli: Cli, finished: RunHandle) -> None:
    base = ("results", finished.name, "-n", finished.namespace)
    found = {row["variant"]: row for row in rows(cli(*base).stdout)}
    assert {name: row["score"] for name, row in found.items()} == {
        variant_of(finished, "oracle"): "1.0",
        variant_of(finished, "nop"): "0.0",
    }
    assert found == {row["variant"]: row for row in rows(cli(*base, "--format", "csv").stdout, ",")}
    documents = json.loads(cli(*base, "--format", "json", "--all-tries").stdout)
    assert [one["fate"] for one in documents] == ["retained", "retained"]


def test_logs_are_the_runners_and_the_verifiers(cli: Cli, finished: RunHandle) -> None:
    base = ("logs", finished.name, "told", variant_of(finished, "oracle"), "-n", finished.namespace)
    runner = cli(*base)
    assert runner.returncode == 0, runner.stderr
    assert "outcome Graded" in runner.stdout
    verifier = cli(*base, "--of", "verifier")
    assert "reward.txt" in verifier.stdout


def test_a_hostile_trajectory_cannot_act_on_the_terminal(cli: Cli, finished: RunHandle) -> None:
    status, seen = cli.on_terminal(
        "trajectory", finished.name, "told", variant_of(finished, "oracle"), "-n", finished.namespace
    )
    assert status == 0, seen
    assert "\x1b]0;owned" not in seen
    assert "\x1b[2J" not in seen
    assert "\u202e" not in seen
    assert "\\u001b[2Jwiped \\u202etxet\\u202c [bold]no markup[/]" in seen
    without = cli("trajectory", finished.name, "told", variant_of(finished, "nop"), "-n", finished.namespace)
    assert without.returncode == 1
    assert "left no trajectory" in without.stderr


def test_a_dry_run_says_what_would_be_and_makes_nothing(
    bench: Bench, cli: Cli, finished: RunHandle, tmp_path: Path
) -> None:
    spec = finished.now().spec
    manifest = bench.run_manifest(
        "planned",
        finished.namespace,
        [spec.ledgers[0].name],
        [one.name for one in spec.variants],
        {"repetitions": 3},
    )
    file = tmp_path / "run.yaml"
    file.write_text(yaml.safe_dump(manifest))
    done = cli("dry-run", str(file), "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["attempts"], found["ledgers"][0]["tasks"]) == (6, 1)
    resolved = finished.now().status.resolved
    assert resolved is not None
    assert found["ledgers"][0]["digest"] == resolved.ledgers[0].digest
    assert any("repetitions" in one for one in found["deviations"])
    assert bench.kube.find(RUNS, finished.namespace, "planned") is None
    manifest["spec"]["paralelism"] = 3
    file.write_text(yaml.safe_dump(manifest))
    refused = cli("dry-run", str(file))
    assert refused.returncode == 1
    assert "spec.paralelism" in refused.stderr


def test_suspend_resume_and_cancel(bench: Bench, cli: Cli) -> None:
    slow = Task("slow", solve=f"sleep 5\n{LEAVE_ANSWER}")
    run = bench.run(bench.ledger(slow), bench.variant("oracle"), suspend=True)
    run.wait_for("Suspended", reason="Requested")
    assert cli("watch", run.name, "-n", run.namespace, "--help").returncode == 0
    assert cli("resume", run.name, "-n", run.namespace, "--dry-run").stdout.endswith("(dry run)\n")
    assert run.now().spec.suspend
    assert cli("resume", run.name, "-n", run.namespace).returncode == 0
    run.wait_for("Suspended", "False")
    assert cli("suspend", run.name, "-n", run.namespace).returncode == 0
    run.wait_for("Suspended", reason="Requested")
    bucket, prefix = bench.bucket, f"tests/{run.now().metadata.uid}/"
    done = cli("cancel", run.name, "-n", run.namespace, "--yes")
    assert done.returncode == 0, done.stderr
    bench.kube.wait_gone(RUNS, run.namespace, run.name, seconds=SECONDS)
    assert list(bench.store.list_keys(bucket, prefix)), "the journal of a deleted run stays"
    assert cli("show", run.name, "-n", run.namespace).returncode == 1


def test_a_finished_run_is_not_suspended(cli: Cli, finished: RunHandle) -> None:
    done = cli("suspend", finished.name, "-n", finished.namespace)
    assert done.returncode == 1
    assert "a finished run does not change" in done.stderr


def test_a_slow_api_server_is_waited_for(cli: Cli, finished: RunHandle, tmp_path: Path) -> None:
    document = yaml.safe_load(Path(os.environ["KUBECONFIG"]).read_text())
    cluster = document["clusters"][0]["cluster"]
    with delayed(urlsplit(cluster["server"]).netloc, 1.5) as address:
        cluster["server"] = f"https://{address}"
        slow = tmp_path / "kubeconfig"
        slow.write_text(yaml.safe_dump(document))
        began = time.monotonic()
        done = cli("show", finished.name, "-n", finished.namespace, KUBECONFIG=str(slow))
        assert done.returncode == 0, done.stderr
        assert time.monotonic() - began > 1.5, "the request went through the slow way"


@contextmanager
def delayed(upstream: str, seconds: float) -> Iterator[str]:
    """An address from which connections reach `upstream` after a while."""
    host, _, port = upstream.rpartition(":")

    def serve(client: socket.socket) -> None:
        time.sleep(seconds)
        with client, socket.create_connection((host.strip("[]"), int(port))) as server:
            threads = [
                threading.Thread(target=copy, args=pair) for pair in ((client, server), (server, client))
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

    def accept() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(client,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, daemon=True).start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"


def copy(source: socket.socket, target: socket.socket) -> None:
    try:
        while chunk := source.recv(65536):
            target.sendall(chunk)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        return
