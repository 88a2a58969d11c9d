"""What a user sees whose API server is away, slow, refuses them, or does not know Assay."""

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
import yaml

from assay.cli.app import COMMANDS, load
from tests.cli.conftest import run
from tests.fixtures.http_answers import answering

TALKS_TO_CLUSTER = [
    ("list",),
    ("show", "nightly"),
    ("watch", "nightly"),
    ("explain", "nightly", "task", "variant"),
    ("logs", "nightly", "task", "variant"),
    ("trajectory", "nightly", "task", "variant"),
    ("results", "nightly"),
    ("suspend", "nightly"),
    ("resume", "nightly"),
    ("cancel", "nightly", "--yes"),
]


def environment(folder: Path, server: str, **more: str) -> dict[str, str]:
    """A kubeconfig for that server, and nothing else that could be asked."""
    path = folder / "config"
    document = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "evals"}}],
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": "secret"}}],
    }
    path.write_text(yaml.safe_dump(document))
    return {"KUBECONFIG": str(path), "KUBERNETES_SERVICE_HOST": "", **more}


def api_server(status: int, body: object) -> AbstractContextManager[str]:
    """Answers every request alike, as the API server words its refusals."""
    return answering(lambda _: json.dumps(body).encode(), status=status)


@pytest.fixture
def silent_server() -> Iterator[str]:
    """Takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def refusal(status: int, reason: str, message: str) -> dict[str, object]:
    return {"kind": "Status", "status": "Failure", "code": status, "reason": reason, "message": message}


@pytest.mark.parametrize("command", TALKS_TO_CLUSTER, ids=lambda command: command[0])
def test_an_absent_server_is_named(tmp_path: Path, command: tuple[str, ...]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    done = run(*command, environment=environment(tmp_path, f"http://127.0.0.1:{port}"))
    assert done.exit_code == 1
    assert f"error: http://127.0.0.1:{port}: the API server did not answer" in done.stderr
    assert "kubectl get --raw /readyz" in done.stderr
    assert done.stdout == ""


def test_a_server_that_never_answers_is_given_up(tmp_path: Path, silent_server: str) -> None:
    done = run("list", environment=environment(tmp_path, silent_server, ASSAY_REQUEST_SECONDS="0.2"))
    assert done.exit_code == 1
    assert f"{silent_server}: the API server did not answer" in done.stderr


@pytest.mark.parametrize("seconds", ["soon", "0", "-1", "nan", "1e9"])
def test_a_timeout_that_is_none_is_refused(tmp_path: Path, seconds: str) -> None:
    done = run("list", environment=environment(tmp_path, "http://127.0.0.1:1", ASSAY_REQUEST_SECONDS=seconds))
    assert done.exit_code == 1
    assert "ASSAY_REQUEST_SECONDS" in done.stderr


@pytest.mark.parametrize(
    ("status", "reason", "message", "advice"),
    [
        (401, "Unauthorized", "Unauthorized", "log in again, or choose another --context"),
        (403, "Forbidden", "cannot list evaluationruns", "cannot list evaluationruns"),
        (404, "NotFound", "the server could not find the requested resource", "is Assay installed there?"),
        (503, "ServiceUnavailable", "shutting down", "the API server answered 503: shutting down"),
    ],
)
def test_a_refusal_says_what_to_do(
    tmp_path: Path, status: int, reason: str, message: str, advice: str
) -> None:
    with api_server(status, refusal(status, reason, message)) as server:
        done = run("list", environment=environment(tmp_path, server))
    assert done.exit_code == 1
    assert advice in done.stderr


def test_a_run_that_is_not_there_is_looked_for_elsewhere(tmp_path: Path) -> None:
    with api_server(404, refusal(404, "NotFound", "not found")) as server:
        done = run("show", "nightly", environment=environment(tmp_path, server))
    assert done.exit_code == 1
    assert "there is no EvaluationRun nightly in namespace evals: `assay list -A`" in done.stderr


def test_a_resource_of_another_version_is_told(tmp_path: Path) -> None:
    with api_server(200, {"metadata": {"name": "nightly", "namespace": "evals"}, "spec": {}}) as server:
        done = run("show", "nightly", environment=environment(tmp_path, server))
    assert done.exit_code == 1
    assert "another version of Assay" in done.stderr
    assert "spec.ledgers" in done.stderr


@pytest.mark.parametrize("command", [("list",), ("show", "nightly")])
def test_what_is_no_api_server_is_told(tmp_path: Path, command: tuple[str, ...]) -> None:
    with api_server(200, "Welcome to the company portal") as server:
        done = run(*command, environment=environment(tmp_path, server))
    assert done.exit_code == 1
    assert "what answered is no API server" in done.stderr


def test_looking_at_a_run_loads_nothing_that_takes_long() -> None:
    """Each of these takes a quarter of a second and more: `assay show` is to answer at once."""
    slow = {"aiohttp", "boto3", "kopf", "kubernetes", "prometheus_client", "jinja2", "vl_convert"}
    asked = "import sys, assay.cli.app, assay.cli.run_views; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert not slow & set(done.stdout.split())


def test_a_list_of_nothing_has_its_headings(tmp_path: Path) -> None:
    with api_server(200, {"items": []}) as server:
        done = run("list", environment=environment(tmp_path, server))
    assert (done.exit_code, done.stdout.split("\t")[:3]) == (0, ["NAMESPACE", "RUN", "STATE"])


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_teaches(name: str) -> None:
    done = run(name, "--help")
    assert done.exit_code == 0
    assert "Usage: " in done.stdout
    group = COMMANDS[name].place.endswith(":app")
    assert group or "Example:" in done.stdout or "The start:" in done.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_says_of_each_what_it_says_itself(name: str) -> None:
    told = " ".join((load(name).help or "").partition("\n\n")[0].split())
    assert COMMANDS[name].summary == told


def test_an_unknown_command_is_a_wrong_command_line() -> None:
    done = run("frobnicate")
    assert done.exit_code == 2
    assert "No such command 'frobnicate'" in done.stderr
    assert "Did you mean 'show'?" in run("shwo").stderr
