"""Harbor's `result.json` of a trial, as much of it as scoring needs, read without Harbor.

Harbor's document may grow: unknown fields are left alone, but what is read here must have the right type.
"""

from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class View(BaseModel):
    """Part of a document that somebody else defines."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)


class Timing(View):
    """When a phase ran."""

    started_at: datetime | None = None
    finished_at: datetime | None = None

    @property
    def seconds(self) -> float | None:
        """How long it took; None where one end is unknown."""
        if self.started_at is None or self.finished_at is None:
            return None
        return max(0.0, (self.finished_at - self.started_at).total_seconds())


class ExceptionView(View):
    """An exception that ended a phase."""

    exception_type: str
    exception_message: str = ""


class ModelView(View):
    """The model that the agent was started with."""

    name: str
    provider: str | None = None


class AgentInfo(View):
    """The agent."""

    name: str
    version: str | None = None
    model_info: ModelView | None = None


class AgentResult(View):
    """What the agent said that it used. Input includes cache."""

    n_input_tokens: int | None = Field(default=None, ge=0)
    n_cache_tokens: int | None = Field(default=None, ge=0)
    n_output_tokens: int | None = Field(default=None, ge=0)
    cost_usd: float | None = Field(default=None, ge=0)
    model_usage: dict[str, Any] | None = None


class VerifierResult(View):
    """The verifier's figures, unchecked: a boolean or a string must not become a number."""

    rewards: dict[str, Any] | None = None


class StepResult(View):
    """One step of a multi-step trial."""

    agent_result: AgentResult | None = None
    exception_info: ExceptionView | None = None
    agent_execution: Timing | None = None
    verifier: Timing | None = None


class AgentConfig(View):
    """How the agent was asked for."""

    name: str | None = None
    import_path: str | None = None
    model_name: str | None = None


class TrialConfig(View):
    """The part of the trial's configuration that names things."""

    agent: AgentConfig = AgentConfig()
    timeout_multiplier: float = 1.0
    agent_timeout_multiplier: float | None = None
    verifier_timeout_multiplier: float | None = None


class TrialResult(View):
    """`result.json` of a trial; schema version 1, which is also what a missing version means."""

    schema_version: int = 1
    id: str
    task_name: str
    trial_name: str
    agent_info: AgentInfo
    config: TrialConfig = TrialConfig()
    agent_result: AgentResult | None = None
    verifier_result: VerifierResult | None = None
    exception_info: ExceptionView | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    agent_setup: Timing | None = None
    agent_execution: Timing | None = None
    verifier: Timing | None = None
    step_results: list[StepResult] | None = None

    @property
    def exceptions(self) -> list[ExceptionView]:
        """The trial's own exception and those of its steps, in order."""
        steps = [step.exception_info for step in self.step_results or []]
        return [one for one in (self.exception_info, *steps) if one is not None]

    @property
    def agent_results(self) -> list[AgentResult]:
        """The trial's own, or those of its steps."""
        if self.agent_result is not None:
            return [self.agent_result]
        return [step.agent_result for step in self.step_results or [] if step.agent_result is not None]
