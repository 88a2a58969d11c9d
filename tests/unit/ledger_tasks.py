"""Tasks in memory, for tests about ledgers."""

from collections.abc import Mapping
from typing import Any

from assay.api.ledger_build_file import LedgerBuildFile
from assay.core.archive import Entry
from assay.core.ledger import LedgerFile, parse_ledger, render_ledger
from assay.core.ledger_build import LedgerBuilder, LedgerRefusedError

DIGEST = "sha256:" + "1" * 64
OTHER_DIGEST = "sha256:" + "2" * 64
COMMIT = "b46fa3a2723635aa29cc012538df4867ac2ac006"

TASK_TOML = """
[task]
name = "{name}"
[metadata]
category = "feature"
language = "python"
repository_url = "https://git.example/Some/Repo.git"
base_commit_hash = "{commit}"
[environment]
docker_image = "registry.example/task:1"
cpus = 2
memory_mb = 4096
[agent]
timeout_sec = 60.0
network_mode = "no-network"
[verifier]
timeout_sec = 30.5
"""

BUILD: dict[str, Any] = {
    "benchmark": "sample",
    "version": "1.0",
    "defaults": {
        "oracle_kind": "tests",
        "licence": {"value": "MIT", "source": "LICENSE", "date": "2026-01-01"},
        "difficulty": {"value": "easy", "source": "authors", "date": "2026-01-01"},
    },
    "images": {"registry.example/task:1": f"registry.example/task@{DIGEST}"},
}


def task(name: str = "org/one", *, commit: str = COMMIT, toml: str = "", **files: Any) -> dict[str, str]:
    """The files of a task with nothing wrong, changed by `files` (text by path, None removes one)."""
    made: dict[str, str | None] = {
        "task.toml": TASK_TOML.format(name=name, commit=commit) + toml,
        "instruction.md": "Do it.",
        "tests/test.sh": "#!/bin/sh\n",
        **files,
    }
    return {path: text for path, text in made.items() if text is not None}


def entries(files: Mapping[str, str]) -> list[Entry]:
    """The files as entries of a folder."""
    return [Entry.of_bytes(path, text.encode()) for path, text in files.items()]


def build(*tasks: Mapping[str, str], **stated: Any) -> LedgerFile:
    """The ledger of the tasks, in folders t0, t1, …; `stated` is laid over the build file."""
    build_file = LedgerBuildFile.model_validate({**BUILD, **stated})
    builder = LedgerBuilder(build_file, build_file.images.get)
    for number, files in enumerate(tasks):
        builder.add(f"t{number}", entries(files))
    made = builder.finish()
    return parse_ledger(render_ledger(made.header, made.tasks))


def refusals(*tasks: Mapping[str, str], **stated: Any) -> list[str]:
    """What the build refuses, in the words that a user reads."""
    try:
        build(*tasks, **stated)
    except LedgerRefusedError as refused:
        return [str(refusal) for refusal in refused.refusals]
    return []
