"""Real Harbor jobs, run once for all tests."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples" / "tasks"
ENVIRONMENT = "tests.harbor_jobs.folder_environment:FolderEnvironment"


def run_job(
    folder: Path, name: str, tasks: Sequence[Path], agents: Sequence[dict[str, Any]], **more: Any
) -> Path:
    """Runs a job with Harbor and returns its folder."""
    config = {
        "job_name": name,
        "jobs_dir": str(folder),
        "n_concurrent_trials": 2,
        "quiet": True,
        "environment": {"import_path": ENVIRONMENT},
        "agents": agents,
        "tasks": [{"path": str(task)} for task in tasks],
        **more,
    }
    (folder / f"{name}.json").write_text(json.dumps(config))
    done = subprocess.run(
        [Path(sys.executable).with_name("harbor"), "run", "--config", folder / f"{name}.json"],
        # Without the variable LiteLLM asks the network for prices, and waits.
        env=os.environ | {"PYTHONPATH": f"{ROOT}", "LITELLM_LOCAL_MODEL_COST_MAP": "True"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / name


@pytest.fixture(scope="session")
def examples_job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The six example tasks, each with the oracle and with the agent that does nothing."""
    if os.geteuid() != 0:
        pytest.skip("the environment needs root: namespaces, mounts")
    tasks = sorted(EXAMPLES.iterdir())
    return run_job(tmp_path_factory.mktemp("jobs"), "examples", tasks, [{"name": "oracle"}, {"name": "nop"}])


@pytest.fixture(scope="session")
def troubled_job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One task, twice, with an agent that solves it and then never ends, and one that cannot be set up."""
    if os.geteuid() != 0:
        pytest.skip("the environment needs root: namespaces, mounts")
    agents: list[dict[str, Any]] = [
        {"import_path": "tests.runner.agents:Sleeper", "override_timeout_sec": 2.0},
        {"import_path": "tests.runner.agents:FailingSetup"},
    ]
    folder = tmp_path_factory.mktemp("jobs")
    task = folder / "answer"
    for path, text in ANSWER_TASK.items():
        (task / path).parent.mkdir(parents=True, exist_ok=True)
        (task / path).write_text(text)
    return run_job(folder, "troubled", [task], agents, n_attempts=2)


ANSWER_TASK = {
    "task.toml": '[task]\nname = "tests/answer"\n[environment]\nworkdir = "/app"\n',
    "instruction.md": "Write the number 42 into /app/answer.txt.\n",
    "environment/Dockerfile": "FROM example.test/task:1\n",
    "solution/solve.sh": "#!/bin/bash\necho 42 > /app/answer.txt\n",
    "tests/test.sh": (
        "#!/bin/bash\nmkdir -p /logs/verifier\n"
        '[ "$(cat /app/answer.txt 2>/dev/null)" = 42 ]\necho $((1 - $?)) > /logs/verifier/reward.txt\n'
    ),
}
