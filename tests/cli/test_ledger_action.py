"""The GitHub Action's own script, on clones as a runner of GitHub makes them."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.test_ledger_gate import Owner, edited

FOLDER = Path(__file__).resolve().parents[2] / ".github/actions/ledger-check"
NOBODY = "0" * 40


@pytest.fixture
def owner(tmp_path: Path) -> Owner:
    (tmp_path / "repository").mkdir()
    return Owner(tmp_path / "repository")


def act(owner: Owner, folder: Path, branch: str, *, shallow: bool = True, **environment: str) -> Any:
    """Checks `branch` out as actions/checkout does, and runs the script in it."""
    depth = ["--depth", "1"] if shallow else []
    origin = owner.root.resolve().as_uri()
    subprocess.run(["git", "clone", "-q", *depth, "-b", branch, origin, folder], check=True)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        [FOLDER / "check"],
        cwd=folder,
        env={"PATH": path, "HOME": str(folder), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_pull_request_that_edits_a_ranked_task_is_red_with_its_name(owner: Owner, tmp_path: Path) -> None:
    owner.rank()
    owner.pull_request()
    edited(owner)
    owner.freeze("1.0")
    owner.commit("change")
    red = act(owner, tmp_path / "one", "change", GITHUB_BASE_REF="main")
    assert red.returncode == 1
    assert "task org/two was edited under version 1.0, which rankings/1.0/report.json ranks" in red.stderr

    owner.freeze("1.1")
    owner.commit("new version")
    green = act(owner, tmp_path / "two", "change", GITHUB_BASE_REF="main")
    assert green.returncode == 0, green.stderr


def test_a_push_is_held_against_the_commit_before_it(owner: Owner, tmp_path: Path) -> None:
    owner.rank()
    before = owner.git("rev-parse", "HEAD")
    edited(owner)
    owner.git("rm", "-q", "-r", "rankings")
    owner.freeze("1.0")
    owner.commit("change")
    red = act(owner, tmp_path / "one", "main", BEFORE=before)
    assert red.returncode == 1
    assert "task org/two was edited under version 1.0" in red.stderr


def test_the_first_push_of_a_branch_has_no_commit_before_it(owner: Owner, tmp_path: Path) -> None:
    green = act(owner, tmp_path / "one", "main", BEFORE=NOBODY)
    assert green.returncode == 0, green.stderr


def test_the_action_hands_its_inputs_to_the_script() -> None:
    action = yaml.safe_load((FOLDER / "action.yml").read_text())
    step = action["runs"]["steps"][-1]
    script = (FOLDER / "check").read_text()
    assert step["run"] == '"$GITHUB_ACTION_PATH/check"'
    assert all(f"${{{name}:-" in script for name in step["env"])
    assert set(action["inputs"]) == {"ledger", "reports-bucket", "reports-prefix"}
