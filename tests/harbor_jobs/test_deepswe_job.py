"""The six runnable DeepSWE tasks, run by Harbor in their own images, imported and scored."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import run
from tests.harbor_jobs.conftest import ROOT, run_job

TASKS = (
    "anko-default-function-arguments",
    "anko-typed-variable-bindings",
    "bandit-incremental-cache-control",
    "bandit-interprocedural-taint-checks",
    "bandit-structured-nosec-directives",
    "etree-xml-diff-patch",
)
UNPACK = Path(os.environ.get("ASSAY_SHARED") or ROOT.parent / "shared") / "datasets" / "unpack"

pytestmark = [
    pytest.mark.corpus,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(not UNPACK.is_file(), reason=f"needs the data sets at {UNPACK.parent}"),
]


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("deepswe")
    subprocess.run([UNPACK, folder], check=True, stdout=subprocess.DEVNULL)
    tasks = [folder / "deepswe-v1.1" / "tasks" / name for name in TASKS]
    environment = {"import_path": "tests.harbor_jobs.image_environment:ImageEnvironment"}
    agents = [{"name": "oracle"}, {"name": "nop"}]
    return run_job(folder, "six", tasks, agents, environment=environment, n_concurrent_trials=1)


def test_the_oracle_passes_six_and_doing_nothing_none(job: Path, tmp_path: Path) -> None:
    done = run("import", "harbor", job, "-o", tmp_path / "attempts.jsonl")
    assert done.exit_code == 0, done.stderr
    records = [json.loads(line) for line in (tmp_path / "attempts.jsonl").read_text().splitlines()]
    assert {record["task"].rpartition("/")[2] for record in records} == set(TASKS)
    assert all({"partial", "f2p", "p2p"} <= record["figures"].keys() for record in records)
    report = json.loads(run("score", tmp_path / "attempts.jsonl", "--format", "json").stdout)
    scores = {row["variant"]: row["score"] for row in report["vector"]}
    assert {name: (score["strict"], score["coverage"]) for name, score in scores.items()} == {
        "oracle": (1, 1),
        "nop": (0, 1),
    }
