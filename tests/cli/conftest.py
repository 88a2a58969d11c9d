"""Folders of tasks, the command line in this process, and a real image registry."""

import contextlib
import hashlib
import json
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from assay.cli.app import app
from localcluster.build import ensure
from localcluster.toolset import TOOLS
from tests.fixtures.s3 import free_port, s3_server
from tests.unit.ledger_tasks import COMMIT, task

__all__ = ["s3_server"]

START_SECONDS = 30

BUILD_FILE = """
benchmark = "sample"
version = "1.0"
[defaults]
oracle_kind = "tests"
licence = {value = "MIT", source = "LICENSE", date = "2026-01-01"}
difficulty = {value = "easy", source = "authors", date = "2026-01-01"}
"""


def run(*arguments: str | Path, environment: Mapping[str, str] | None = None) -> Result:
    """Runs `assay` with the arguments; never raises."""
    return CliRunner().invoke(app, [str(one) for one in arguments], env=environment, catch_exceptions=False)


def write_task(folder: Path, files: Mapping[str, str]) -> None:
    """Writes the files of one task."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    """Three tasks on two base commits, and `build.toml` beside them."""
    root = tmp_path / "tasks"
    for name, commit in {"one": COMMIT, "two": COMMIT, "three": "c" * 40}.items():
        write_task(root / name, task(f"org/{name}", commit=commit))
    (tmp_path / "build.toml").write_text(BUILD_FILE)
    return root


@dataclass(frozen=True)
class RegistryServer:
    """The reference registry on loopback."""

    address: str

    def push(self, path: str, tag: str) -> str:
        """Stores a manifest of an empty index under `path:tag`; returns its digest."""
        kind = "application/vnd.oci.image.index.v1+json"
        body = json.dumps({"schemaVersion": 2, "mediaType": kind, "manifests": []}).encode()
        request = urllib.request.Request(
            f"{self.address}/v2/{path}/manifests/{tag}", body, {"Content-Type": kind}, method="PUT"
        )
        with urllib.request.urlopen(request, timeout=10):
            return f"sha256:{hashlib.sha256(body).hexdigest()}"


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryServer]:
    folder = tmp_path_factory.mktemp("registry")
    server = RegistryServer(f"http://127.0.0.1:{free_port()}")
    (folder / "config.yaml").write_text(
        f"version: 0.1\nstorage: {{filesystem: {{rootdirectory: {folder / 'data'}}}}}\n"
        f"http: {{addr: '{server.address.removeprefix('http://')}'}}\n"
    )
    binary = ensure([TOOLS["registry"]], Console(stderr=True))["registry"] / "registry"
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([binary, "serve", folder / "config.yaml"], stdout=log, stderr=log)
    try:
        _await_answer(server, process, folder / "log")
        yield server
    finally:
        process.terminate()
        process.wait()


def _await_answer(server: RegistryServer, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        with (
            contextlib.suppress(urllib.error.URLError, ConnectionError),
            urllib.request.urlopen(f"{server.address}/v2/", timeout=2),
        ):
            return
        time.sleep(0.02)
    raise RuntimeError(f"the registry did not start: {log.read_text()[-2000:]}")
