"""What `make test` prints last, from the results of real pytest sessions."""

import subprocess
import sys
from pathlib import Path

from scripts.closing import closing, read_session

TESTS = """
import pytest

def test_holds():
    assert True

@pytest.mark.parametrize("reward", [1, 2])
def test_breaks(reward):
    print("a long dump " * 1000)
    assert reward == 1, "one reward each"

def test_waits():
    pytest.skip("no node")

@pytest.fixture
def cluster():
    raise RuntimeError("no cluster is up")

def test_begins(cluster):
    pass
"""


def _session(folder: Path) -> Path:
    (folder / "test_it.py").write_text(TESTS)
    results = folder / "results.xml"
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "test_it.py",
        f"--junitxml={results}",
    ]
    subprocess.run(command, cwd=folder, capture_output=True, check=False)
    return results


def test_the_end_names_each_failure_with_its_own_words_and_adds_up(tmp_path: Path) -> None:
    session = read_session(_session(tmp_path))
    text = closing([session, session], seconds=61)
    assert text.count("FAILED test_it.py::test_breaks[2]") == 2
    assert "one reward each" in text
    assert "RuntimeError: no cluster is up" in text
    assert "a long dump" not in text
    assert text.splitlines()[-1] == "======== 2 failed, 4 passed, 2 skipped, 2 errors in 61.00s ========"


def test_a_session_that_died_is_an_error(tmp_path: Path) -> None:
    text = closing([read_session(tmp_path / "scale.xml")], seconds=1)
    assert "FAILED scale\n    the session ended without results" in text
    assert text.splitlines()[-1] == "======== 1 errors in 1.00s ========"
