"""`assay ledger build --oracle-runs` on the folder of a real Harbor job, without any other step between."""

import os
from pathlib import Path

import pytest

from assay.core.ledger import LedgerFile, parse_ledger
from tests.cli.conftest import run
from tests.harbor_jobs.conftest import ANSWER_TASK, run_job

IMAGE = f"example.test/task@sha256:{'1' * 64}"
BUILD_FILE = """
benchmark = "sample"
version = "1.0"
allow_unknown = ["baseCommit"]
[defaults]
oracle_kind = "script"
licence = {value = "MIT", source = "LICENSE", date = "2026-01-01"}
difficulty = {value = "easy", source = "authors", date = "2026-01-01"}
timeouts = {agent_seconds = 60}
"""


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The task of `answer`, whose image is named by digest, three times solved and three times left alone."""
    if os.geteuid() != 0:
        pytest.skip("the environment needs root: namespaces, mounts")
    folder = tmp_path_factory.mktemp("jobs")
    write_task(folder / "tasks/answer")
    agents = [{"name": "oracle"}, {"name": "nop"}]
    return run_job(folder, "proof", [folder / "tasks/answer"], agents, n_attempts=3)


def write_task(folder: Path) -> None:
    files = dict(ANSWER_TASK)
    files["task.toml"] = files["task.toml"].replace(
        "[environment]\n", f'[environment]\ndocker_image = "{IMAGE}"\n'
    )
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)


def build(root: Path, job: Path) -> tuple[LedgerFile | None, str]:
    """The ledger of the tasks below `root`, and what the build said against it."""
    (root / "build.toml").write_text(BUILD_FILE)
    done = run(
        "ledger", "build", root / "tasks", "--build-file", root / "build.toml",
        "--oracle-runs", job, "-o", root / "ledger.jsonl",
    )  # fmt: skip
    return parse_ledger((root / "ledger.jsonl").read_bytes()) if done.exit_code == 0 else None, done.stderr


def test_a_harbor_job_proves_the_oracles_of_its_tasks(job: Path, tmp_path: Path) -> None:
    write_task(tmp_path / "tasks/answer")
    ledger, said = build(tmp_path, job)
    assert ledger is not None, said
    (line,) = ledger.tasks
    assert line.oracle is not None
    assert line.oracle.proof is not None
    assert (line.oracle.proof.solution_rewards, line.oracle.proof.no_change_rewards) == ([1.0] * 3, [0.0] * 3)
    assert ledger.without_proof == []


def test_a_task_that_was_edited_since_is_not_proved_by_it(job: Path, tmp_path: Path) -> None:
    write_task(tmp_path / "tasks/answer")
    with (tmp_path / "tasks/answer/tests/test.sh").open("a") as file:
        file.write("echo 1 > /logs/verifier/reward.txt\n")
    ledger, said = build(tmp_path, job)
    assert ledger is None
    assert "error: tests/answer: oracle: a run was of other files of the task: sha256:" in said


def test_a_folder_that_is_no_job_is_named(tmp_path: Path) -> None:
    write_task(tmp_path / "tasks/answer")
    (tmp_path / "empty").mkdir()
    ledger, said = build(tmp_path, tmp_path / "empty")
    assert ledger is None
    assert f"{tmp_path / 'empty'}: no trial in this folder" in said
