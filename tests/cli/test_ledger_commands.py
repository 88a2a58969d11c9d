"""`assay ledger` as a benchmark's owner uses it, against a real registry and a real S3 server."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from assay.adapters.ledger_store import ledger_key, publish_ledger
from assay.adapters.s3 import AsyncS3Store, S3Store
from assay.api.ledger_resource import Ledger
from assay.core.ledger import parse_ledger
from tests.cli.conftest import RegistryServer, run, write_task
from tests.fixtures.s3 import S3Server, new_bucket
from tests.unit.ledger_tasks import DIGEST, task

IMAGES = {"registry.example/task:1": f"registry.example/task:1@{DIGEST}"}


@pytest.fixture
def images(tmp_path: Path) -> Path:
    path = tmp_path / "images.json"
    path.write_text(json.dumps(IMAGES))
    return path


@pytest.fixture
def built(tasks: Path, images: Path) -> Path:
    """A ledger file with its archives in `archives` beside it."""
    ledger = tasks.parent / "ledger.jsonl"
    done = run(
        "ledger", "build", tasks, "--build-file", tasks.parent / "build.toml",
        "--images", images, "--archives", tasks.parent / "archives", "-o", ledger,
    )  # fmt: skip
    assert done.exit_code == 0, done.stderr
    return ledger


def test_build_says_what_it_froze(built: Path, tasks: Path, images: Path) -> None:
    done = run(
        "ledger", "build", tasks, "--build-file", tasks.parent / "build.toml", "--images", images,
        "-o", tasks.parent / "again.jsonl", "--json",
    )  # fmt: skip
    said = json.loads(done.stdout)
    assert (said["tasks"], said["clusters"], said["repositories"]) == (3, 2, 1)
    assert said["digest"] == parse_ledger(built.read_bytes()).digest
    assert built.read_bytes() == (tasks.parent / "again.jsonl").read_bytes()


def test_a_refused_task_leaves_no_file(tasks: Path, images: Path) -> None:
    (tasks / "two/tests/test.sh").unlink()
    done = run(
        "ledger", "build", tasks, "--build-file", tasks.parent / "build.toml", "--images", images,
        "-o", tasks.parent / "out.jsonl",
    )  # fmt: skip
    assert done.exit_code == 1
    assert "error: org/two: tests/test.sh: the test script is missing" in done.stderr
    assert "no ledger was written" in done.stderr
    assert not (tasks.parent / "out.jsonl").exists()


def test_a_folder_that_cannot_be_a_task_is_named(tasks: Path, images: Path) -> None:
    (tasks / "two/tests/link").symlink_to("/etc/passwd")
    done = run(
        "ledger", "build", tasks, "--build-file", tasks.parent / "build.toml", "--images", images,
        "-o", tasks.parent / "out.jsonl",
    )  # fmt: skip
    assert done.exit_code == 1
    assert "error: org/two: tests/link: a symbolic link out of the task" in done.stderr


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("benchmark = ", "is not TOML"),
        ('benchmark = "x"', "version: Field required"),
        ('benchmark = "x"\nversion = "1"\nlicense = "MIT"', "license: Extra inputs are not permitted"),
        (
            'benchmark = "x"\nversion = "1"\n[images]\n"a:1" = "a:1"',
            "images.a:1: String should match pattern",
        ),
        (
            'benchmark = "x"\nversion = "1"\n[plan]\nrepetitions = 0',
            "plan.repetitions: Input should be greater",
        ),
    ],
)
def test_a_bad_build_file_is_explained(tasks: Path, text: str, says: str) -> None:
    (tasks.parent / "build.toml").write_text(text)
    done = run("ledger", "build", tasks, "--build-file", tasks.parent / "build.toml")
    assert done.exit_code == 1
    assert f"build.toml: {says}" in done.stderr


def test_a_bad_image_map_is_explained(tasks: Path, images: Path) -> None:
    images.write_text('{"registry.example/task:1": "registry.example/task:2"}')
    done = run("ledger", "build", tasks, "--build-file", tasks.parent / "build.toml", "--images", images)
    assert done.exit_code == 1
    assert "images.json: registry.example/task:1: String should match pattern" in done.stderr


def test_a_folder_without_tasks_is_refused(tmp_path: Path) -> None:
    (tmp_path / "build.toml").write_text('benchmark = "x"\nversion = "1"\n')
    done = run("ledger", "build", tmp_path, "--build-file", tmp_path / "build.toml")
    assert done.exit_code == 1
    assert "no subfolder holds a task.toml" in done.stderr


def test_include_chooses_by_folder_or_id(tasks: Path, images: Path) -> None:
    build_file = tasks.parent / "build.toml"
    build_file.write_text('include = ["one", "org/three"]\n' + build_file.read_text())
    done = run(
        "ledger", "build", tasks, "--build-file", build_file, "--images", images, "-o", tasks / "l", "--json"
    )
    assert json.loads(done.stdout)["tasks"] == 2


def test_tags_are_looked_up_in_a_registry(tasks: Path, registry: RegistryServer) -> None:
    build = (
        "ledger", "build", tasks, "--build-file", tasks.parent / "build.toml",
        "--registry", registry.address, "-o", tasks.parent / "out.jsonl",
    )  # fmt: skip
    missing = run(*build)
    assert missing.exit_code == 1
    assert "registry.example/task:1 is a tag" in missing.stderr
    digest = registry.push("task", "1")
    assert run(*build).exit_code == 0
    for line in parse_ledger((tasks.parent / "out.jsonl").read_bytes()).tasks:
        assert line.images.environment == f"registry.example/task:1@{digest}"


def test_a_registry_that_does_not_answer_is_named(tasks: Path) -> None:
    done = run(
        "ledger",
        "build",
        tasks,
        "--build-file",
        tasks.parent / "build.toml",
        "--registry",
        "http://127.0.0.1:1",
    )
    assert done.exit_code == 1
    assert "error: registry http://127.0.0.1:1 cannot be reached" in done.stderr


def test_show_lists_the_tasks(built: Path) -> None:
    done = run("ledger", "show", built, "--tasks")
    heading, *rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert heading[:2] == ["TASK", "CLUSTER"]
    assert [row[0] for row in rows] == ["org/one", "org/three", "org/two"]
    assert len(json.loads(run("ledger", "show", built, "--tasks", "--json").stdout)) == 3


def test_show_refuses_a_file_that_was_changed(built: Path) -> None:
    built.write_bytes(built.read_bytes().replace(b"feature", b"another", 1))
    done = run("ledger", "show", built)
    assert done.exit_code == 1
    assert "ledger.jsonl: line 2: lineDigest of task org/one" in done.stderr


def test_publish_can_be_repeated(built: Path, s3_server: S3Server) -> None:
    bucket = new_bucket(s3_server)
    command = (
        "ledger",
        "publish",
        built,
        "--archives",
        built.parent / "archives",
        "--bucket",
        bucket,
        "--json",
    )
    first = json.loads(run(*command, environment=s3_server.environment).stdout)
    again = json.loads(run(*command, environment=s3_server.environment).stdout)
    assert (first["uploaded"], first["alreadyThere"]) == (3, 0)
    assert (again["uploaded"], again["alreadyThere"]) == (0, 3)
    ledger = parse_ledger(built.read_bytes())
    store = S3Store(s3_server.settings)
    assert first["key"] == ledger_key(ledger.digest)
    assert parse_ledger(store.get_bytes(bucket, first["key"], 1 << 20)) == ledger
    keys = {found.key for found in store.list_keys(bucket, "tasks/")}
    assert keys == {f"tasks/{line.archive_digest.replace(':', '-')}.tar" for line in ledger.tasks}
    store.close()


async def test_publishing_that_was_interrupted_leaves_no_ledger_and_is_simply_repeated(
    built: Path, s3_server: S3Server
) -> None:
    bucket, content, calls = new_bucket(s3_server), await asyncio.to_thread(built.read_bytes), 0
    ledger, archives = parse_ledger(content), built.parent / "archives"
    store = AsyncS3Store(s3_server.settings)

    def interrupt() -> None:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise InterruptedError("interrupted")

    with pytest.raises(ExceptionGroup, match="unhandled errors"):
        await publish_ledger(store, bucket, content, ledger, archives, interrupt)
    keys = {found.key for found in await store.list_keys(bucket, "")}
    assert {key.partition("/")[0] for key in keys} == {"tasks"}

    published = await publish_ledger(store, bucket, content, ledger, archives)
    assert published.uploaded + published.already_there == 3
    assert published.already_there >= 2
    assert await store.get_bytes(bucket, published.key, 1 << 20) == content
    await store.close()


def test_publishing_again_replaces_bytes_that_somebody_changed(built: Path, s3_server: S3Server) -> None:
    bucket = new_bucket(s3_server)
    command = (
        "ledger", "publish", built, "--archives", built.parent / "archives", "--bucket", bucket, "--json",
    )  # fmt: skip
    run(*command, environment=s3_server.environment)
    store = S3Store(s3_server.settings)
    victim = next(store.list_keys(bucket, "tasks/"))
    content = store.get_bytes(bucket, victim.key, 1 << 20)
    store.put_bytes(bucket, victim.key, bytes([content[0] ^ 1]) + content[1:])

    verify = ("ledger", "verify", built, "--bucket", bucket)
    wrong = run(*verify, environment=s3_server.environment)
    assert wrong.exit_code == 1
    assert f"{victim.key} has digest sha256:" in wrong.stdout

    again = json.loads(run(*command, environment=s3_server.environment).stdout)
    assert (again["uploaded"], again["alreadyThere"]) == (1, 2)
    assert store.get_bytes(bucket, victim.key, 1 << 20) == content
    assert run(*verify, environment=s3_server.environment).exit_code == 0
    store.close()


def test_verify_notices_a_ledger_that_is_another_in_storage(built: Path, s3_server: S3Server) -> None:
    bucket = new_bucket(s3_server)
    publish = ("ledger", "publish", built, "--archives", built.parent / "archives", "--bucket", bucket)
    verify = ("ledger", "verify", built, "--bucket", bucket)
    missing = run(*verify, environment=s3_server.environment)
    assert missing.exit_code == 1
    assert "does not exist" in missing.stdout
    run(*publish, environment=s3_server.environment)
    store = S3Store(s3_server.settings)
    store.put_bytes(bucket, ledger_key(parse_ledger(built.read_bytes()).digest), b"{}")
    assert "does not have the file's bytes" in run(*verify, environment=s3_server.environment).stdout
    store.close()


def test_a_changed_archive_is_not_published(built: Path, s3_server: S3Server) -> None:
    bucket = new_bucket(s3_server)
    victim = next((built.parent / "archives").glob("*.tar"))
    content = bytearray(victim.read_bytes())
    content[600] ^= 1
    victim.write_bytes(content)
    done = run(
        "ledger", "publish", built, "--archives", built.parent / "archives", "--bucket", bucket,
        environment=s3_server.environment,
    )  # fmt: skip
    assert done.exit_code == 1
    assert f"{victim} has digest sha256:" in done.stderr
    store = S3Store(s3_server.settings)
    assert f"tasks/{victim.name}" not in {found.key for found in store.list_keys(bucket, "tasks/")}
    assert list(store.list_keys(bucket, "ledgers/")) == []
    store.close()


def test_a_missing_archive_is_named_before_anything_is_written(built: Path, s3_server: S3Server) -> None:
    bucket = new_bucket(s3_server)
    victim = next((built.parent / "archives").glob("*.tar"))
    victim.unlink()
    done = run(
        "ledger", "publish", built, "--archives", built.parent / "archives", "--bucket", bucket,
        environment=s3_server.environment,
    )  # fmt: skip
    assert done.exit_code == 1
    assert f"{victim} is missing: build the ledger with --archives" in done.stderr
    store = S3Store(s3_server.settings)
    assert list(store.list_keys(bucket, "")) == []
    store.close()


def test_a_missing_bucket_is_one_message(built: Path, s3_server: S3Server) -> None:
    done = run(
        "ledger", "publish", built, "--archives", built.parent / "archives", "--bucket", "absent",
        environment=s3_server.environment,
    )  # fmt: skip
    assert done.exit_code == 1
    assert done.stderr.count("error: ") == 1
    assert "bucket absent does not exist" in done.stderr


def test_the_manifest_is_a_ledger_resource(built: Path) -> None:
    done = run("ledger", "manifest", built, "--name", "sample", "-n", "evals", "--bucket", "evidence")
    ledger = Ledger.parse(yaml.safe_load(done.stdout))
    digest = parse_ledger(built.read_bytes()).digest
    assert ledger.spec.digest == digest
    assert ledger.spec.source.s3 is not None
    assert ledger.spec.source.s3.key == ledger_key(digest)
    assert (ledger.metadata.name, ledger.metadata.namespace) == ("sample", "evals")


def test_a_task_with_many_faults_is_told_them_at_once(tmp_path: Path) -> None:
    gone: dict[str, Any] = {"tests/test.sh": None, "instruction.md": None}
    write_task(tmp_path / "tasks/bad", task("org/bad", **gone))
    (tmp_path / "build.toml").write_text('benchmark = "x"\nversion = "1"\n')
    done = run("ledger", "build", tmp_path / "tasks", "--build-file", tmp_path / "build.toml")
    assert done.stderr.count("error: org/bad: ") == 5
