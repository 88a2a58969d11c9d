"""`assay ledger build --build-images`: real builds with buildah, pushed to a real registry."""

import json
import shutil
import sys
from itertools import batched
from pathlib import Path

import pytest

from assay.core.ledger import LedgerFile, parse_ledger
from tests.cli.conftest import BUILD_FILE, RegistryServer, run, write_task
from tests.unit.ledger_tasks import task

needs_buildah = pytest.mark.skipif(not shutil.which("buildah"), reason="buildah is not installed")

BUILT = "FROM scratch\nCOPY hello /hello\n"
SEPARATE = '[verifier.environment]\nnetwork_mode = "no-network"\n'


@pytest.fixture
def storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A storage of containers for this test alone, on any filesystem."""
    configuration = tmp_path / "storage.conf"
    configuration.write_text(
        f'[storage]\ndriver = "vfs"\ngraphroot = "{tmp_path}/graph"\nrunroot = "{tmp_path}/run"\n'
    )
    monkeypatch.setenv("CONTAINERS_STORAGE_CONF", str(configuration))
    monkeypatch.setenv("BUILDAH_ISOLATION", "chroot")
    monkeypatch.delenv("STORAGE_DRIVER", raising=False)


def unbuilt(root: Path, words: str) -> Path:
    """A task whose two images have only a Dockerfile."""
    files = task("org/unbuilt", toml=SEPARATE)
    files["task.toml"] = files["task.toml"].replace('docker_image = "registry.example/task:1"\n', "")
    dockerfile = BUILT.replace("hello", "test.sh") + "ENV GRADER=1\n"
    files |= {
        "environment/Dockerfile": BUILT,
        "environment/hello": words,
        "tests/words": words,
        "tests/Dockerfile": dockerfile,
    }
    write_task(root / "tasks/unbuilt", files)
    (root / "build.toml").write_text(BUILD_FILE)
    return root / "tasks"


def built(tasks: Path, registry: RegistryServer) -> LedgerFile:
    ledger = tasks.parent / "ledger.jsonl"
    done = run(
        "ledger", "build", tasks, "--build-file", tasks.parent / "build.toml",
        "--registry", registry.address, "--build-images", "-o", ledger,
    )  # fmt: skip
    assert done.exit_code == 0, done.stderr
    return parse_ledger(ledger.read_bytes())


@needs_buildah
@pytest.mark.usefixtures("storage")
def test_images_that_have_only_a_dockerfile_are_built_and_named_by_digest(
    tmp_path: Path, registry: RegistryServer
) -> None:
    tasks = unbuilt(tmp_path, "first")
    first = built(tasks, registry)
    (line,) = first.tasks
    assert line.images.verifier is not None
    assert line.images.verifier != line.images.environment
    host = registry.address.removeprefix("http://")
    assert line.images.environment.startswith(f"{host}/assay-tasks/sample/unbuilt-environment:")
    # The registry has the very context, so nothing is built, and the bytes are the same.
    shutil.rmtree(tmp_path / "graph")
    assert built(tasks, registry).digest == first.digest
    (tasks / "unbuilt/environment/hello").write_text("second")
    assert built(tasks, registry).tasks[0].images.environment != line.images.environment


@needs_buildah
@pytest.mark.usefixtures("storage")
def test_a_build_that_fails_is_told_with_the_tool_s_words(tmp_path: Path, registry: RegistryServer) -> None:
    tasks = unbuilt(tmp_path, "x")
    (tasks / "unbuilt/environment/Dockerfile").write_text("FROM scratch\nCOPY absent /\n")
    done = run(
        "ledger", "build", tasks, "--build-file", tmp_path / "build.toml",
        "--registry", registry.address, "--build-images", "-o", tmp_path / "out.jsonl",
    )  # fmt: skip
    assert done.exit_code == 1
    assert "error: buildah bud" in done.stderr
    assert "absent" in done.stderr


DOCKER = """#!{python}
import json, sys
with open("{log}", "a") as log:
    log.write(json.dumps(sys.argv[1:]) + "\\n")
if sys.argv[1] == "inspect":
    host, path = sys.argv[2].rpartition(":")[0].split("/", 1)
    own = host + "/" + path + "@sha256:" + "d" * 64
    print(json.dumps([dict(RepoDigests=["mirror.example/" + path + "@sha256:" + "e" * 64, own])]))
"""
"""Stands for docker, which needs a daemon: what it is asked is real, what it answers has docker's format."""


def test_docker_is_asked_where_there_is_no_buildah(
    tmp_path: Path, registry: RegistryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = unbuilt(tmp_path, "of docker")
    log, tool = tmp_path / "log", tmp_path / "bin/docker"
    tool.parent.mkdir()
    tool.write_text(DOCKER.format(python=sys.executable, log=log))
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tool.parent))
    (line,) = built(tasks, registry).tasks
    assert line.images.verifier is not None
    asked = [json.loads(one) for one in log.read_text().splitlines()]
    assert [one[0] for one in asked] == ["build", "push", "inspect"] * 2
    for image, (build, push, inspect), folder in zip(
        (line.images.environment, line.images.verifier),
        batched(asked, 3, strict=True),
        ("environment", "tests"),
        strict=True,
    ):
        context = tasks / "unbuilt" / folder
        name, _, digest = image.partition("@")
        assert digest == "sha256:" + "d" * 64
        assert build == ["build", "-t", name, "-f", str(context / "Dockerfile"), str(context)]
        assert (push, inspect) == (["push", name], ["inspect", name])


def test_building_images_needs_a_registry(tmp_path: Path) -> None:
    tasks = unbuilt(tmp_path, "x")
    done = run("ledger", "build", tasks, "--build-file", tmp_path / "build.toml", "--build-images")
    assert done.exit_code == 1
    assert "--build-images needs --registry" in done.stderr
