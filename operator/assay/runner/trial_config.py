"""From a try spec to Harbor's trial configuration, and what a task may not ask for."""

import contextlib
import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harbor.agents.factory import AgentFactory
from harbor.models.model_api_format import ModelApiFormat
from harbor.models.task.config import VerifierEnvironmentMode
from harbor.models.task.task import Task
from harbor.models.task.verifier_mode import (
    resolve_task_verifier_mode,
    resolve_verifier_environment_definition,
    task_has_any_separate_verifier,
)
from harbor.models.trial.config import (
    AgentConfig,
    EnvironmentConfig,
    ResourceMode,
    TrialConfig,
    VerifierConfig,
)
from harbor.models.trial.config import TaskConfig as TaskReference
from harbor.models.trial.error_policy import ErrorPolicyOverride

from assay.api.ledgerfile import VerifierMode
from assay.api.tryspec import ModelTarget, TrySpec
from assay.runner.harbor_environment import IMPORT_PATH, TaskRefused, refuse_compose, refuse_unbuilt_verifier
from assay.runner.settings import Paths

NOT_GRADED = (
    "SandboxError",
    "SandboxLost",
    "SandboxNotReady",
    "EnvironmentUnusable",
    "NetworkPolicyTooWeak",
    "TaskRefused",
    "DockerfileNeedsBuild",
    "AgentVersionMismatch",
    "GuardFailed",
)
"""Exceptions after which no verifier runs; Harbor takes a name it does not know for the agent's own fault."""

GRADED = (
    "AgentAuthenticationError",
    "ModelNotFoundError",
    "ApiProviderResourceNotFoundError",
    "AuthenticationError",
    "PermissionDeniedError",
    "NotFoundError",
)
"""Exceptions that Harbor guesses from an agent's own output: the verifier runs, and the wire decides."""

_API_FORMATS = {
    "OpenAIChat": ModelApiFormat.OPENAI_CHAT_COMPLETIONS,
    "AnthropicMessages": ModelApiFormat.ANTHROPIC_MESSAGES,
}
_API_KEY_NAMES = {"OpenAIChat": "OPENAI_API_KEY", "AnthropicMessages": "ANTHROPIC_API_KEY"}


@dataclass(frozen=True, slots=True)
class ModelAccess:
    """Where the agent finds its models: the runner's model gateway, with a token for this try alone."""

    base_url: str
    token: str

    def url(self, index: int, model: ModelTarget) -> str:
        """Base URL as clients of this API expect it: OpenAI's ends in /v1, Anthropic's does not."""
        root = f"{self.base_url}/m/{index}"
        return f"{root}/v1" if model.api == "OpenAIChat" else root


def import_agent(name: str, with_models: bool) -> None:
    """Import the agent's class, and litellm where Harbor will ask it about a model.

    An unknown name is left to Harbor, which says so when the trial is made.
    """
    with contextlib.suppress(ValueError, ImportError):
        AgentFactory.get_agent_class_from_config(AgentConfig(name=name))
        if with_models:
            importlib.import_module("litellm")


def load_task(folder: Path, spec: TrySpec) -> Task:
    """Read the task and refuse what an attempt pod cannot do. Raises TaskRefused naming the field."""
    try:
        task = Task(folder)
    except (ValueError, OSError, RecursionError) as error:
        # ValueError: no TOML, no UTF-8, or a field that Harbor's models refuse. OSError: a file is missing.
        raise TaskRefused(f"the task cannot be read: {error}") from error
    refuse_compose(task.paths.environment_dir)
    separate = spec.task.verifier_mode is VerifierMode.SEPARATE
    wants_separate = task_has_any_separate_verifier(task.config)
    if task.has_steps and (separate or wants_separate):
        raise TaskRefused(
            "a task of several steps is verified in shared mode only, because one verifier container "
            "serves one pristine verification: set verifierMode: shared, and no environment_mode in its steps"
        )
    if wants_separate and not separate:
        raise TaskRefused("task.toml asks for a separate verifier, but the ledger says verifierMode: shared")
    definition = resolve_verifier_environment_definition(task.config, task.paths)
    if definition is not None and definition.bundled_tests and not spec.task.verifier_image:
        refuse_unbuilt_verifier(definition.directory, definition.config.docker_image)
    return task


def separate_verifier_forced(task: Task, spec: TrySpec) -> bool:
    """Whether the ledger asks for a separate verifier where the task would share the agent's container."""
    shared = not task.has_steps and resolve_task_verifier_mode(task.config) is VerifierEnvironmentMode.SHARED
    return shared and spec.task.verifier_mode is VerifierMode.SEPARATE


def keeps_processes(task: Task) -> bool:
    """Whether the task's deliverable is a running process: `[metadata] keep_agent_processes = true`."""
    return task.config.metadata.get("keep_agent_processes") is True


def trial_config(spec: TrySpec, task: Task, paths: Paths, access: ModelAccess | None) -> TrialConfig:
    """Harbor's configuration of this try: our environment, our deadlines, nothing from the host."""
    deadlines = spec.deadlines
    return TrialConfig(
        task=TaskReference(path=task.paths.task_dir),
        trial_name=paths.trial.name,
        trials_dir=paths.trials,
        agent=_agent(spec, task, access),
        environment=EnvironmentConfig(
            import_path=IMPORT_PATH,
            # The pod enforces resources, by the plan; Harbor must neither judge nor round them.
            cpu_enforcement_policy=ResourceMode.IGNORE,
            memory_enforcement_policy=ResourceMode.IGNORE,
        ),
        verifier=_verifier(spec, task),
        artifacts=list(spec.task.crossing_files),
        agent_timeout_multiplier=_per_step(deadlines.agent_seconds, agent_seconds_of_steps(task)),
        verifier_timeout_multiplier=_per_step(deadlines.verifier_seconds, _verifier_seconds_of_steps(task)),
        environment_build_timeout_multiplier=deadlines.setup_seconds
        / task.config.environment.build_timeout_sec,
        override_error_policy=_error_policy(),
    )


def agent_seconds_of_steps(task: Task) -> float | None:
    """The agent's seconds of all steps together, as task.toml has them; None for a task without steps."""
    steps = task.config.steps or []
    whole = task.config.agent.timeout_sec
    each = [step.agent.timeout_sec if step.agent.timeout_sec is not None else whole for step in steps]
    return sum(seconds for seconds in each if seconds is not None) or None


def _verifier_seconds_of_steps(task: Task) -> float | None:
    steps = task.config.steps or []
    whole = task.config.verifier.timeout_sec
    each = [step.verifier.timeout_sec if step.verifier.timeout_sec is not None else whole for step in steps]
    return sum(each) or None


def _per_step(allowed: int, sum_of_steps: float | None) -> float | None:
    """Steps share a phase's deadline in the proportion in which the task gives them time."""
    return None if sum_of_steps is None else allowed / sum_of_steps


def _verifier(spec: TrySpec, task: Task) -> VerifierConfig:
    return VerifierConfig(
        override_timeout_sec=None if task.has_steps else float(spec.deadlines.verifier_seconds)
    )


def _error_policy() -> dict[str, ErrorPolicyOverride]:
    never = ErrorPolicyOverride(should_retry=False, should_grade=False, has_valid_reward=False)
    judged = ErrorPolicyOverride(should_retry=False, should_grade=True)
    return dict.fromkeys(NOT_GRADED, never) | dict.fromkeys(GRADED, judged)


def _agent(spec: TrySpec, task: Task, access: ModelAccess | None) -> AgentConfig:
    agent = spec.agent
    timeout = None if task.has_steps else float(spec.deadlines.agent_seconds)
    common = AgentConfig(
        name=agent.name,
        env=dict(agent.environment),
        kwargs=dict(agent.arguments),
        override_timeout_sec=timeout,
        override_setup_timeout_sec=float(spec.deadlines.setup_seconds),
    )
    if not spec.models or access is None:
        return common
    index = next((i for i, model in enumerate(spec.models) if model.role == "main"), 0)
    main = spec.models[index]
    key = _API_KEY_NAMES[main.api]
    return common.model_copy(
        update={
            "model_name": main.name,
            "model_api_format": _api_format(common, main),
            "base_url": access.url(index, main),
            "env": {**agent.environment, key: access.token},
            "kwargs": _model_arguments(agent.name, agent.arguments, main),
        }
    )


def _api_format(agent: AgentConfig, main: ModelTarget) -> ModelApiFormat | None:
    """The protocol to speak, for agents that can be told; others go by the model's name."""
    wanted = _API_FORMATS[main.api]
    connection = AgentFactory.get_agent_class_from_config(agent).MODEL_CONNECTION
    return wanted if connection is not None and wanted in (connection.supported_api_formats or []) else None


def _model_arguments(agent: str, arguments: dict[str, Any], main: ModelTarget) -> dict[str, Any]:
    """What the variant declares of its main model, handed to agents that take it as an argument."""
    declared: dict[str, Any] = {}
    if main.reasoning_effort is not None:
        declared["reasoning_effort"] = main.reasoning_effort
    if agent == "terminus-2" and main.sampling:
        sampling = dict(main.sampling)
        if "temperature" in sampling:
            declared["temperature"] = sampling.pop("temperature")
        if sampling:
            declared["llm_call_kwargs"] = sampling
    return {**declared, **arguments}
