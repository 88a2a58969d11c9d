"""What a try spec becomes in Harbor's configuration."""

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from assay.api.ledgerfile import VerifierMode
from assay.api.tryspec import TrySpec
from assay.runner.harbor_environment import TaskRefused
from assay.runner.settings import Paths
from assay.runner.trial_config import ModelAccess, keeps_processes, load_task, trial_config
from tests.runner.tasks import TaskFolder, separate_task, shared_task, stepped_task

ACCESS = ModelAccess("http://127.0.0.1:8900", "assay-try-token")
MODEL = {"role": "main", "name": "gpt-x", "api": "OpenAIChat", "endpoint": "http://m.test/v1"}


def spec_of(task: TaskFolder, **fields: Any) -> TrySpec:
    identity: dict[str, Any] = {
        "runName": "r",
        "runUid": "0" * 36,
        "namespace": "n",
        "ledger": "l",
        "task": "t",
        "variant": "v",
        "repetition": 0,
        "tryNumber": 1,
        "jobName": "j",
    }
    document = {
        "identity": identity,
        "ledgerDigest": f"sha256:{'1' * 64}",
        "variantFingerprint": f"sha256:{'2' * 64}",
        "task": {
            "id": "t",
            "archiveDigest": task.digest,
            "verifierMode": "shared",
            "network": "none",
            "environmentImage": "i",
        },
        "agent": {"name": "oracle"},
        "deadlines": {"setupSeconds": 300, "agentSeconds": 240, "verifierSeconds": 600, "uploadSeconds": 60},
        "storage": {"bucket": "evidence", "prefix": ""},
        "gatewayUrl": "http://gateway:8080",
    }
    return TrySpec.model_validate(document | fields)


def unpacked(task: TaskFolder, folder: Path) -> Path:
    with tarfile.open(fileobj=io.BytesIO(task.archive())) as tar:
        tar.extractall(folder, filter="data")
    return folder


def test_deadlines_replace_the_tasks_own(tmp_path: Path) -> None:
    spec = spec_of(shared_task())
    task = load_task(unpacked(shared_task(), tmp_path / "task"), spec)
    config = trial_config(spec, task, Paths.from_environment({"ASSAY_WORK": str(tmp_path)}), None)

    assert config.agent.override_timeout_sec == 240
    assert config.agent.override_setup_timeout_sec == 300
    assert config.verifier.override_timeout_sec == 600
    assert config.environment_build_timeout_multiplier == 300 / task.config.environment.build_timeout_sec


def test_steps_share_a_deadline_in_the_tasks_proportion(tmp_path: Path) -> None:
    """The ledger states the sum over the steps: two of 60 s, doubled by the plan, are 240."""
    spec = spec_of(stepped_task())
    task = load_task(unpacked(stepped_task(), tmp_path / "task"), spec)
    config = trial_config(spec, task, Paths.from_environment({"ASSAY_WORK": str(tmp_path)}), None)

    assert config.agent.override_timeout_sec is None
    assert config.agent_timeout_multiplier == 2
    assert config.verifier_timeout_multiplier == 0.5


def test_model_reaches_the_agent_by_the_runners_gateway_alone(tmp_path: Path) -> None:
    model = MODEL | {"reasoningEffort": "high", "sampling": {"temperature": 0.5, "top_p": 0.9}}
    agent = {"name": "terminus-2", "arguments": {"max_turns": 7}}
    spec = spec_of(shared_task(), agent=agent, models=[model])
    task = load_task(unpacked(shared_task(), tmp_path / "task"), spec)
    config = trial_config(spec, task, Paths.from_environment({"ASSAY_WORK": str(tmp_path)}), ACCESS)

    assert config.agent.base_url == "http://127.0.0.1:8900/m/0/v1"
    assert config.agent.env == {"OPENAI_API_KEY": "assay-try-token"}
    assert config.agent.kwargs == {
        "max_turns": 7,
        "reasoning_effort": "high",
        "temperature": 0.5,
        "llm_call_kwargs": {"top_p": 0.9},
    }
    # What Harbor writes to disk does not hold the token.
    assert "assay-try-token" not in json.dumps(config.model_dump(mode="json"))


@pytest.mark.parametrize(
    ("task", "mode", "words"),
    [
        (separate_task(), "shared", "asks for a separate verifier"),
        (stepped_task(), "separate", "several steps"),
        (separate_task(**{"environment/docker-compose.yaml": "a: b\n"}), "separate", "several containers"),
        (TaskFolder("not toml at all ["), "shared", "cannot be read"),
        (TaskFolder("a = " + "[" * 5000), "shared", "cannot be read"),
        (TaskFolder("[agent]\ntimeout_sec = 'soon'\n"), "shared", "cannot be read: .*timeout_sec"),
        (TaskFolder("[environment]\nworkdir = '/app'\n"), "shared", "cannot be read: .*instruction.md"),
    ],
)
def test_tasks_that_a_pod_cannot_run(tmp_path: Path, task: TaskFolder, mode: str, words: str) -> None:
    spec = spec_of(task)
    spec = spec.model_copy(
        update={"task": spec.task.model_copy(update={"verifier_mode": VerifierMode(mode)})}
    )
    with pytest.raises(TaskRefused, match=f"(?s){words}"):
        load_task(unpacked(task, tmp_path / "task"), spec)


def test_only_an_explicit_true_keeps_processes(tmp_path: Path) -> None:
    for number, (value, keeps) in enumerate({"true": True, "false": False, '"yes"': False}.items()):
        task = shared_task(extra_toml=f"[metadata]\nkeep_agent_processes = {value}")
        folder = unpacked(task, tmp_path / str(number))
        assert keeps_processes(load_task(folder, spec_of(task))) is keeps
