"""`assay ledger check`, `verify`, `diff` and `runner-image` on real git repositories."""

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from typer.testing import Result

from assay.adapters.s3 import S3Store
from assay.core.ledger import parse_ledger
from tests.cli.conftest import run, write_task
from tests.fixtures.s3 import S3Server, new_bucket
from tests.unit.ledger_tasks import DIGEST, task

BUILD = """
benchmark = "sample"
version = "{version}"
[harness]
paths = ["harness", "tasks"]
tasks = "tasks"
[defaults]
oracle_kind = "tests"
licence = {{value = "MIT", source = "LICENSE", date = "2026-01-01"}}
difficulty = {{value = "easy", source = "authors", date = "2026-01-01"}}
[images]
"registry.example/task:1" = "registry.example/task:1@{digest}"
"""
SETTINGS = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
GIT = (
    "git",
    "-c",
    "gc.auto=0",
    "-c",
    "maintenance.auto=false",
    "-c",
    "user.name=t",
    "-c",
    "user.email=t@example.org",
    "-c",
    "commit.gpgsign=false",
)


class Owner:
    """A benchmark's owner with a repository: harness, three tasks, ledger and pin, committed on `main`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.git("init", "-q", "-b", "main")
        for name, commit in {"one": "b" * 40, "two": "b" * 40, "three": "c" * 40}.items():
            write_task(root / "tasks" / name, task(f"org/{name}", commit=commit))
        write_task(root, {"harness/run.py": "print('run')\n", "README.md": "A benchmark.\n"})
        self.freeze("1.0")
        self.commit("first")

    def git(self, *arguments: str) -> str:
        done = subprocess.run(
            [*GIT, *arguments],
            cwd=self.root,
            env={**os.environ, **SETTINGS},
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout.strip()

    def freeze(self, version: str) -> None:
        (self.root / "build.toml").write_text(BUILD.format(version=version, digest=DIGEST))
        done = run(
            "ledger", "build", self.root / "tasks", "--build-file", self.root / "build.toml",
            "-o", self.root / "ledger.jsonl", "--archives", self.root.parent / "archives",
        )  # fmt: skip
        assert done.exit_code == 0, done.stderr

    def commit(self, words: str) -> str:
        self.git("add", "--all")
        self.git("commit", "-q", "-m", words)
        return self.git("rev-parse", "HEAD")

    def rank(self, path: str = "rankings/1.0/report.json", text: str = "{}") -> None:
        write_task(self.root, {path: text})
        self.commit("rank")

    def pull_request(self) -> None:
        self.git("switch", "-q", "-c", "change")

    def edit(self, path: str, text: str) -> None:
        (self.root / path).write_text(text)

    def check(self, *more: str) -> Result:
        return run("ledger", "check", "ledger.jsonl", "--repo", self.root, "--base", "main", *more)


@pytest.fixture
def owner(tmp_path: Path) -> Owner:
    (tmp_path / "repository").mkdir()
    return Owner(tmp_path / "repository")


def test_what_was_frozen_is_green(owner: Owner) -> None:
    done = owner.check()
    assert done.exit_code == 0, done.stderr
    assert "sample 1.0, sha256:" in done.stdout
    owner.rank()
    owner.pull_request()
    owner.edit("README.md", "Not part of the harness.\n")
    owner.commit("words")
    assert owner.check().exit_code == 0


def test_another_pin_is_red_with_both_digests(owner: Owner) -> None:
    owner.edit("ledger.pin", f"{DIGEST}\n")
    owner.commit("pin")
    done = owner.check()
    assert done.exit_code == 1
    ledger = parse_ledger((owner.root / "ledger.jsonl").read_bytes())
    assert f"pin: ledger.pin pins {DIGEST}, the ledger's digest is {ledger.digest}" in done.stderr


@pytest.mark.parametrize(("path", "check"), [("ledger.pin", "pin"), ("ledger.jsonl", "ledger")])
def test_a_missing_file_is_red(owner: Owner, path: str, check: str) -> None:
    (owner.root / path).unlink()
    owner.commit("gone")
    done = owner.check()
    assert done.exit_code == 1
    assert f"{check}: {path} is not in the commit" in done.stderr


def test_a_changed_harness_is_red(owner: Owner) -> None:
    owner.edit("harness/run.py", "print('other')\n")
    owner.commit("harness")
    done = owner.check()
    assert done.exit_code == 1
    assert "harness: the git tree of harness, tasks is " in done.stderr


def test_a_changed_mode_of_a_task_s_file_is_red_with_the_task_s_name(owner: Owner) -> None:
    (owner.root / "tasks/two/tests/test.sh").chmod(0o755)
    owner.commit("executable")
    done = owner.check()
    assert done.exit_code == 1
    assert "task: task org/two is not the frozen one" in done.stderr


def edited(owner: Owner) -> str:
    owner.edit("tasks/two/instruction.md", "Do something else.")
    return "task org/two was edited"


def added(owner: Owner) -> str:
    write_task(owner.root / "tasks/four", task("org/four", commit="d" * 40))
    return "task org/four was added"


def removed(owner: Owner) -> str:
    owner.git("rm", "-q", "-r", "tasks/one")
    return "task org/one was removed"


@pytest.mark.parametrize("change", [edited, added, removed])
@pytest.mark.parametrize("rebuilt", [True, False])
def test_a_task_changed_after_a_ranking_is_red_and_a_new_version_is_green(
    owner: Owner, change: object, rebuilt: bool
) -> None:
    owner.rank()
    owner.pull_request()
    words = change(owner)  # type: ignore[operator]
    if rebuilt:
        owner.freeze("1.0")
    owner.commit("change")
    done = owner.check()
    assert done.exit_code == 1
    if rebuilt:
        assert f"ranking: {words} under version 1.0, which rankings/1.0/report.json ranks" in done.stderr
    else:
        assert "harness: the git tree" in done.stderr

    owner.freeze("1.1")
    owner.commit("new version")
    assert owner.check().exit_code == 0


def test_without_a_ranking_a_version_may_still_change(owner: Owner) -> None:
    owner.pull_request()
    edited(owner)
    owner.freeze("1.0")
    owner.commit("change")
    assert owner.check().exit_code == 0


def test_deleting_the_ranking_does_not_help(owner: Owner) -> None:
    owner.rank()
    owner.pull_request()
    edited(owner)
    owner.git("rm", "-q", "-r", "rankings")
    owner.freeze("1.0")
    owner.commit("change")
    assert "task org/two was edited under version 1.0" in owner.check().stderr


def test_going_back_to_a_ranked_version_with_other_tasks_is_red(owner: Owner) -> None:
    owner.rank()
    owner.freeze("1.1")
    owner.commit("1.1")
    owner.pull_request()
    edited(owner)
    owner.freeze("1.0")
    owner.commit("back")
    assert "task org/two was edited under version 1.0" in owner.check().stderr


def test_a_changed_plan_is_red_too(owner: Owner) -> None:
    owner.rank()
    owner.pull_request()
    owner.freeze("1.0")
    facts = (owner.root / "build.toml").read_text().replace("[harness]", "[plan]\nrepetitions = 5\n[harness]")
    owner.edit("build.toml", facts)
    done = run(
        "ledger", "build", owner.root / "tasks", "--build-file", owner.root / "build.toml",
        "-o", owner.root / "ledger.jsonl",
    )  # fmt: skip
    assert done.exit_code == 0
    owner.commit("plan")
    assert "the header changed under version 1.0" in owner.check().stderr
    assert "plan.repetitions went from 1 to 5" in owner.check().stderr


def test_a_report_ranks_the_ledger_that_it_names(owner: Owner) -> None:
    report = {"ledgers": [{"name": "a", "benchmark": "sample", "version": "1.0", "digest": DIGEST}]}
    owner.rank("rankings/may.json", json.dumps(report))
    done = owner.check("--json")
    assert done.exit_code == 1
    (finding,) = json.loads(done.stdout)["findings"]
    assert f"rankings/may.json ranks ledger {DIGEST} of version 1.0" in finding["problem"]


def test_a_ranked_version_whose_ledger_nobody_knows_is_red(owner: Owner) -> None:
    owner.rank("rankings/2.0/table.md", "| variant | score |")
    owner.pull_request()
    owner.freeze("2.0")
    owner.commit("2.0")
    done = owner.check()
    assert done.exit_code == 1
    assert "rankings/2.0/table.md ranks version 2.0, and no earlier ledger of it" in done.stderr


def test_a_report_in_storage_is_a_ranking_too(owner: Owner, s3_server: S3Server) -> None:
    bucket = new_bucket(s3_server)
    ledger = parse_ledger((owner.root / "ledger.jsonl").read_bytes())
    listed = {"name": "a", "benchmark": "sample", "version": "1.0", "digest": ledger.digest}
    store = S3Store(s3_server.settings)
    store.put_bytes(bucket, "runs/x/report/report.json", json.dumps({"ledgers": [listed]}).encode())
    store.close()
    check = ("ledger", "check", "--repo", owner.root, "--base", "main", "--reports-bucket", bucket)
    assert run(*check, environment=s3_server.environment).exit_code == 0
    owner.pull_request()
    edited(owner)
    owner.freeze("1.0")
    owner.commit("change")
    done = run(*check, environment=s3_server.environment)
    assert done.exit_code == 1
    assert (
        f"task org/two was edited under version 1.0, which s3://{bucket}/runs/x/report/report.json"
        in done.stderr
    )


def test_verify_proves_a_commit(owner: Owner) -> None:
    first = owner.git("rev-parse", "HEAD")
    edited(owner)
    owner.commit("change")
    good = run("ledger", "verify", "--repo", owner.root, "--commit", first, "--json")
    assert good.exit_code == 0, good.stdout
    assert {one["name"] for one in json.loads(good.stdout)["checks"]} == {
        "pin",
        "harness",
        "file",
        "clusters",
    }
    bad = run("ledger", "verify", "--repo", owner.root)
    assert bad.exit_code == 1
    assert "WRONG\tharness\tthe git tree of harness, tasks is" in bad.stdout


def test_a_hook_of_another_repository_does_not_change_what_is_judged(
    owner: Owner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Git tells its hooks by GIT_DIR which repository they belong to."""
    (tmp_path / "other").mkdir()
    subprocess.run(["git", "init", "-q", tmp_path / "other"], check=True)
    owner.rank()
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other/.git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "other/.git/index"))
    green = owner.check()
    assert green.exit_code == 0, green.stderr


def test_the_harness_tree_is_what_git_itself_would_write(owner: Owner) -> None:
    ledger = parse_ledger((owner.root / "ledger.jsonl").read_bytes())
    assert ledger.header.harness is not None
    owner.git("switch", "-q", "--orphan", "bare")
    owner.git("checkout", "-q", "main", "--", "harness", "tasks")
    owner.commit("only the harness")
    assert owner.git("rev-parse", "HEAD^{tree}") == ledger.header.harness.tree


def test_building_leaves_no_object_in_the_repository(owner: Owner) -> None:
    before = owner.git("count-objects", "-v")
    owner.edit("harness/run.py", "print('another')\n")
    owner.freeze("1.1")
    assert owner.git("count-objects", "-v") == before


def test_ignored_files_are_no_part_of_the_harness(owner: Owner) -> None:
    ledger = (owner.root / "ledger.jsonl").read_bytes()
    write_task(owner.root, {".gitignore": "*.log\n", "harness/out.log": "noise"})
    owner.freeze("1.0")
    assert (owner.root / "ledger.jsonl").read_bytes() == ledger


def tampered(folder: Path) -> str:
    victim = min(folder.glob("*.tar"))
    content = bytearray(victim.read_bytes())
    content[700] ^= 1
    victim.write_bytes(content)
    return victim.name


def test_verify_reads_every_archive(owner: Owner) -> None:
    archives = owner.root.parent / "archives"
    command: Sequence[str | Path] = ("ledger", "verify", owner.root / "ledger.jsonl", "--archives", archives)
    assert run(*command).exit_code == 0
    name = tampered(archives)
    done = run(*command)
    assert done.exit_code == 1
    assert f"{name} has digest sha256:" in done.stdout


def test_verify_says_which_digest_it_found(owner: Owner) -> None:
    done = run("ledger", "verify", owner.root / "ledger.jsonl", "--digest", DIGEST)
    assert done.exit_code == 1
    assert "WRONG\tdigest\tthe file has digest sha256:" in done.stdout


def test_diff_explains_in_words(owner: Owner, tmp_path: Path) -> None:
    old = tmp_path / "old.jsonl"
    old.write_bytes((owner.root / "ledger.jsonl").read_bytes())
    edited(owner), added(owner)
    owner.git("rm", "-q", "-r", "tasks/three")
    owner.freeze("1.1")
    done = run("ledger", "diff", old, owner.root / "ledger.jsonl")
    assert done.exit_code == 0
    assert "header: version went from 1.0 to 1.1" in done.stdout
    assert "org/four: added" in done.stdout
    assert "org/three: removed" in done.stdout
    assert "  the files of the task (archiveDigest) went from sha256:" in done.stdout
    assert done.stdout.endswith("1 added, 1 removed, 1 edited\n")
    same = run("ledger", "diff", old, old)
    assert same.stdout.startswith("the same ledger: sha256:")
    assert (
        len(json.loads(run("ledger", "diff", old, owner.root / "ledger.jsonl", "--json").stdout)["tasks"])
        == 3
    )


def test_runner_image_carries_the_pin(owner: Owner, tmp_path: Path) -> None:
    base = f"assay.test/runner:0.1.0@{DIGEST}"
    done = run(
        "ledger", "runner-image", owner.root / "ledger.jsonl", "--from", base, "-o", tmp_path / "image"
    )
    assert done.exit_code == 0, done.stderr
    ledger = parse_ledger((owner.root / "ledger.jsonl").read_bytes())
    assert (tmp_path / "image/ledger.pin").read_text() == f"{ledger.digest}\n"
    assert ledger.header.harness is not None
    first, copy, labels = (tmp_path / "image/Containerfile").read_text().splitlines()
    assert first == f"FROM {base}"
    assert copy.endswith("ledger.pin /opt/assay/ledger.pin")
    assert ledger.header.harness.tree in labels
    by_tag = run("ledger", "runner-image", owner.root / "ledger.jsonl", "--from", "assay.test/runner:0.1.0")
    assert by_tag.exit_code == 1
    assert "does not name a digest" in by_tag.stderr
