"""Real Harbor result folders, imported and scored by the command line."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from assay.core.records_file import read_records
from tests.cli.conftest import run


def imported(job: Path, output: Path, *options: str) -> list[Any]:
    done = run("import", "harbor", job, "-o", output, *options)
    assert done.exit_code == 0, done.stderr
    with output.open("rb") as file:
        return [record for _, record in read_records(file, str(output))]


def test_the_example_tasks_are_imported_and_scored(examples_job: Path, tmp_path: Path) -> None:
    records = imported(examples_job, tmp_path / "attempts.jsonl")
    assert len(records) == 12
    assert {(one.variant, one.reward) for one in records} == {("oracle", 1.0), ("nop", 0.0)}
    assert all(one.harness.harbor == "0.26.0" and one.seconds.agent is not None for one in records)
    done = run("score", tmp_path / "attempts.jsonl", "--format", "json")
    report = json.loads(done.stdout)
    assert {row["variant"]: row["score"]["strict"] for row in report["vector"]} == {"oracle": 1, "nop": 0}
    assert {row["role"] for row in report["vector"]} == {"sentinel"}
    assert report["verdict"] == "NOT PUBLISHABLE"
    assert any("imported" in reason for reason in report["reasonsAgainst"])


def test_a_table_in_one_command(examples_job: Path, tmp_path: Path) -> None:
    imported(examples_job, tmp_path / "attempts.jsonl")
    done = run("score", tmp_path / "attempts.jsonl")
    assert done.stdout.startswith("NOT PUBLISHABLE\n")
    assert "oracle (sentinel)" in done.stdout
    assert "100.0 %" in done.stdout


def test_importing_again_gives_the_same_bytes(examples_job: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        imported(examples_job, tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_a_late_agent_is_scored_and_a_failed_setup_is_not(troubled_job: Path, tmp_path: Path) -> None:
    records = imported(troubled_job, tmp_path / "attempts.jsonl")
    found = [(one.repetition, one.outcome, one.reward, one.agent_timed_out, one.retained) for one in records]
    late = [(number, "Graded", 1.0, True, True) for number in (0, 1)]
    failed = [(number, "SetupFailed", None, False, False) for number in (0, 1)]
    assert sorted(found, key=str) == sorted([*late, *failed], key=str)


def test_a_trial_without_result_is_not_dropped_in_silence(examples_job: Path, tmp_path: Path) -> None:
    job = tmp_path / "job"
    shutil.copytree(examples_job, job)
    cut = next(job.glob("count-requests__*/result.json"))
    cut.unlink()
    done = run("import", "harbor", job, "-o", tmp_path / "attempts.jsonl")
    assert done.exit_code == 1
    assert f"{cut.parent.name}: the trial has no result.json" in " ".join(done.stderr.split())
    done = run("import", "harbor", job, "-o", tmp_path / "attempts.jsonl", "--without-unfinished")
    assert done.exit_code == 0
    assert "1 trials that have not ended are left out" in done.stderr


def test_a_cut_result_is_refused_with_its_name(examples_job: Path, tmp_path: Path) -> None:
    job = tmp_path / "job"
    shutil.copytree(examples_job, job)
    cut = next(job.glob("link-duplicates__*/result.json"))
    cut.write_bytes(cut.read_bytes()[:1000])
    done = run("import", "harbor", job, "-o", tmp_path / "attempts.jsonl")
    assert done.exit_code == 1
    assert "result.json: the document: Invalid JSON" in " ".join(done.stderr.split())
    assert not (tmp_path / "attempts.jsonl").exists()


@pytest.mark.parametrize("depth", ["..", "."])
def test_a_folder_that_is_no_job_is_refused(examples_job: Path, depth: str, tmp_path: Path) -> None:
    folder = examples_job / depth if depth == ".." else tmp_path
    done = run("import", "harbor", folder, "-o", tmp_path / "attempts.jsonl")
    assert done.exit_code == 1
    assert "no trial in this folder" in done.stderr
