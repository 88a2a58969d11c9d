"""The images themselves: what runs in them, as whom, and what must not be in them."""

import gzip
import json
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import certifi
import pytest

from images import machine
from images.catalogue import ROOT
from images.push import PushError, find_crane
from images.store import Built, cache_folder
from tests.images.container import Container, container

pytestmark = pytest.mark.e2e

BuiltImage = Callable[[str], Built]
PYTHON = "/opt/assay/bin/python"


def configuration(built: Built) -> dict[str, object]:
    """The image's configuration, as a node reads it."""
    blobs = built.layout / "blobs/sha256"
    manifest = json.loads((blobs / built.digest.removeprefix("sha256:")).read_text())
    config: dict[str, object] = json.loads((blobs / manifest["config"]["digest"][7:]).read_text())["config"]
    return config


def layers(built: Built) -> list[Path]:
    blobs = built.layout / "blobs/sha256"
    manifest = json.loads((blobs / built.digest.removeprefix("sha256:")).read_text())
    return [blobs / layer["digest"].removeprefix("sha256:") for layer in manifest["layers"]]


@pytest.fixture
def running(request: pytest.FixtureRequest, built_image: BuiltImage) -> Iterator[Container]:
    """A container of the image that the test is parametrised with."""
    with container(built_image(request.param), cache_folder() / "test-storage") as started:
        yield started


@pytest.mark.parametrize("name", ["operator", "runner", "model-server"])
def test_nobody_is_root_and_nothing_of_this_machine_is_inside(name: str, built_image: BuiltImage) -> None:
    built = built_image(name)
    assert configuration(built)["User"] in ("65532", "65532:65532")
    private = private_certificates(layers(built)[0])
    settings = machine.build_environment(with_bundle=False).splitlines()
    secrets = [line.partition("=")[2].strip("'").encode() for line in settings if "://" in line]
    for layer in layers(built)[1:]:
        data = content_of(layer)
        assert not [name for name, pem in private.items() if pem in data], (
            "a machine's certificate is in a layer"
        )
        for secret in secrets:
            assert secret not in data or _is_public(secret), "a machine's setting is in a layer"
    assert "/run/secrets" not in json.dumps(configuration(built))


def content_of(layer: Path) -> bytes:
    """A layer's tar, unpacked where it is compressed."""
    data = layer.read_bytes()
    return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data


def private_certificates(base_layer: Path) -> dict[int, bytes]:
    """The certificates of this machine's bundle that were added to it: no distribution publishes them."""
    bundle = machine.certificate_bundle()
    assert bundle is not None
    published = [Path(certifi.where()), *Path("/usr/share/ca-certificates").rglob("*.crt")]
    public = content_of(base_layer) + b"".join(path.read_bytes() for path in published)
    found = re.findall(
        rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", bundle.read_bytes(), re.DOTALL
    )
    return {number: pem for number, pem in enumerate(found) if pem not in public}


def _is_public(setting: bytes) -> bool:
    """Go's own defaults occur in the documentation of many packages."""
    bare = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "GOENV": "off"}
    printed = subprocess.run(["go", "env", "GOPROXY"], env=bare, check=True, capture_output=True).stdout
    host = printed.split(b",")[0].strip().removeprefix(b"https://")
    return bool(host) and host in setting


# Imports each module of the packages in the arguments, entry modules too: what an image lacks shows here.
IMPORT_ALL = """
import importlib, os, pkgutil, sys
for name in sys.argv[1:]:
    package = importlib.import_module(name)
    for module in pkgutil.walk_packages(package.__path__, f"{name}."):
        importlib.import_module(module.name)
print(os.getuid(), os.environ["HOME"])
"""


@pytest.mark.parametrize("running", ["operator"], indirect=True)
def test_operator_image_runs_operator_gateway_and_command_line(running: Container) -> None:
    packages = ("api", "core", "adapters", "handlers", "gateway", "cli")
    done = running.run(PYTHON, "-c", IMPORT_ALL, *(f"assay.{name}" for name in packages))
    assert done.stdout.split() == ["65532", "/tmp"], done.stderr


@pytest.mark.parametrize("running", ["runner"], indirect=True)
def test_runner_image_runs_the_runner_with_harbor_as_pinned(running: Container) -> None:
    done = running.run(PYTHON, "-c", IMPORT_ALL, "assay.api", "assay.runner")
    assert done.stdout.split() == ["65532", "/work"], done.stderr
    script = (
        "import importlib.metadata, importlib.util, os, harbor.trial.trial\n"
        "print(importlib.metadata.version('harbor'), importlib.util.find_spec('kubernetes'))\n"
        "print(os.environ['HARBOR_TELEMETRY'], os.environ['LITELLM_LOCAL_MODEL_COST_MAP'])"
    )
    done = running.run(PYTHON, "-c", script)
    assert done.stdout.splitlines() == ["0.26.0 None", "off True"], done.stderr


@pytest.mark.parametrize("running", ["operator", "runner"], indirect=True)
def test_bytecode_is_compiled_and_holds_at_any_file_time(running: Container) -> None:
    package = running.path("/opt/assay/lib/python3.13/site-packages/assay")
    compiled = list(package.rglob("*.pyc"))
    assert len(compiled) == len(list(package.rglob("*.py")))
    # Bytes 4 to 8 of the header: 1 means a hash that is not compared with the source.
    assert {path.read_bytes()[4:8] for path in compiled} == {b"\x01\0\0\0"}


@pytest.mark.parametrize("running", ["model-server"], indirect=True)
def test_model_server_wants_a_key(running: Container) -> None:
    done = running.run("python3", "-m", "scripted_model")
    assert done.returncode == 1
    assert "SCRIPTED_MODEL_API_KEY is not set" in done.stderr


def test_sandboxd_image_is_one_static_binary(built_image: BuiltImage) -> None:
    names = []
    for layer in layers(built_image("sandboxd")):
        with tarfile.open(layer) as content:
            names += [member.name for member in content if member.isfile()]
    assert len(names) == 1, names


def command(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "images", *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_build_with_nothing_to_do_needs_no_builder(built_image: BuiltImage, tmp_path: Path) -> None:
    built_image("examples/spans")
    done = command("build", "examples/spans", PATH=str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "images: 1 up to date\n")


def test_listing_names_digests_and_what_is_not_built(built_image: BuiltImage, tmp_path: Path) -> None:
    built = built_image("examples/spans")
    (row,) = json.loads(command("list", "examples/spans", "--json").stdout)
    assert row["digest"] == built.digest
    assert row["pinned"] == f"assay.test/examples/spans@{built.digest}"
    (absent,) = json.loads(command("list", "examples/spans", "--json", ASSAY_CACHE=str(tmp_path)).stdout)
    assert absent["digest"] is None
    mapped = command("list", "examples/spans", "--map", ASSAY_CACHE=str(tmp_path))
    assert mapped.returncode == 1
    assert "not built as they are now: examples/spans; run `python -m images build`" in mapped.stderr


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[str]:
    """The address of a fresh registry, which keeps what it gets in memory."""
    try:
        crane = find_crane()
    except PushError as error:
        pytest.skip(str(error))
    with (tmp_path / "log").open("w+") as log:
        process = subprocess.Popen([crane, "registry", "serve", "--address", "127.0.0.1:0"], stderr=log)
        try:
            yield f"127.0.0.1:{_port(process, tmp_path / 'log')}"
        finally:
            process.terminate()
            process.wait()


def _port(process: subprocess.Popen[bytes], log: Path) -> str:
    while process.poll() is None:
        if found := re.search(r"serving on port (\d+)", log.read_text()):
            return found[1]
    raise AssertionError(f"the registry ended: {log.read_text()}")


def test_registry_serves_what_was_pushed_under_the_same_digest(
    registry: str, built_image: BuiltImage
) -> None:
    built = built_image("model-server")
    pushed = command("push", "model-server", "--registry", registry)
    assert pushed.stdout == f"{registry}/model-server@{built.digest}\n", pushed.stderr
    seen = subprocess.run(
        [find_crane(), "digest", f"{registry}/model-server:0.1.0"], capture_output=True, text=True, check=True
    )
    assert seen.stdout.strip() == built.digest


def test_registry_that_is_not_there_is_named(built_image: BuiltImage) -> None:
    built_image("model-server")
    done = command("push", "model-server", "--registry", "127.0.0.1:1")
    assert done.returncode == 1
    assert "assay.test/model-server:0.1.0 was not pushed to 127.0.0.1:1" in done.stderr
