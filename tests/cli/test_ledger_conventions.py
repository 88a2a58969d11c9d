"""What every `assay ledger` command has: help with an example that can be typed, and `--json`."""

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
import typer

from assay.cli.ledger import app
from tests.cli.conftest import run
from tests.cli.test_ledger_gate import Owner
from tests.fixtures.s3 import S3Server, new_bucket
from tests.unit.ledger_tasks import DIGEST

GROUP = typer.main.get_group(app)
COMMANDS = sorted(GROUP.commands)

FIELDS = {
    "build": "digest",
    "check": "findings",
    "diff": "tasks",
    "manifest": "spec",
    "publish": "key",
    "runner-image": "files",
    "show": "clusters",
    "verify": "checks",
}
"""A field of what each command prints with --json; a command that is not here fails the test."""


def arguments(owner: Owner, bucket: str) -> Mapping[str, Sequence[str | Path]]:
    ledger, archives = owner.root / "ledger.jsonl", owner.root.parent / "archives"
    tasks, facts = owner.root / "tasks", owner.root / "build.toml"
    return {
        "build": (tasks, "--build-file", facts, "-o", ledger),
        "check": ("--repo", owner.root),
        "diff": (ledger, ledger),
        "manifest": (ledger, "--name", "sample", "--bucket", bucket),
        "publish": (ledger, "--archives", archives, "--bucket", bucket),
        "runner-image": (ledger, "--from", f"assay.test/runner@{DIGEST}", "-o", owner.root.parent / "image"),
        "show": (ledger,),
        "verify": (ledger, "--repo", owner.root, "--archives", archives),
    }


@pytest.fixture(scope="module")
def owner(tmp_path_factory: pytest.TempPathFactory) -> Owner:
    root = tmp_path_factory.mktemp("owner") / "repository"
    root.mkdir()
    return Owner(root)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_an_example_with_options_that_there_are(command: str) -> None:
    text = run("ledger", command, "--help").stdout
    lines = [line.strip(" │") for line in text.split("Example:")[1].splitlines()]
    # A line that ends in a backslash goes on in the next one, as in a shell.
    typed = "\n".join(lines).replace("\\\n", " ").splitlines()
    words = next(shlex.split(line) for line in typed if f"assay ledger {command}" in line)
    known = {name for one in GROUP.commands[command].params for name in (*one.opts, *one.secondary_opts)}
    own = words[: words.index("|")] if "|" in words else words
    assert {word for word in own if word.startswith("-") and len(word) > 1} <= known


@pytest.mark.parametrize("command", COMMANDS)
def test_json_is_one_document_and_nothing_else(command: str, owner: Owner, s3_server: S3Server) -> None:
    given = arguments(owner, new_bucket(s3_server))[command]
    done = run("ledger", command, *given, "--json", environment=s3_server.environment)
    assert done.exit_code == 0, done.stderr
    assert FIELDS[command] in json.loads(done.stdout)


def test_reading_a_ledger_s_tasks_as_json_gives_the_lines_of_the_file(owner: Owner) -> None:
    ledger = owner.root / "ledger.jsonl"
    _, *lines = ledger.read_text().splitlines()
    shown = json.loads(run("ledger", "show", ledger, "--tasks", "--json").stdout)
    assert shown == [json.loads(line) for line in lines]
