"""What Assay reads in a task's `task.toml`: Harbor's format, without Harbor.

Only what a ledger needs is read; everything else is Harbor's to judge when a try runs.
"""

import math
import tomllib
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from assay.api.ledgerfile import TaskResources, VerifierMode

DEFAULT_SETUP_SECONDS = 600
"""Harbor's own default for the start of an environment."""
DEFAULT_VERIFIER_SECONDS = 600


class TaskFileError(Exception):
    """`task.toml` cannot be used; the message names the field and the fix."""

    def __init__(self, field: str, problem: str, fix: str) -> None:
        super().__init__(f"{field}: {problem}; {fix}")
        self.field, self.problem, self.fix = field, problem, fix


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


def _lower(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


PositiveSeconds = Annotated[float, Field(gt=0, le=7 * 24 * 3600)]
NetworkName = Literal["no-network", "public", "allowlist"]

_UNITS = {"G": 1024.0, "M": 1.0, "K": 1 / 1024}


class EnvironmentTable(_Part):
    """`[environment]` and `[verifier.environment]`."""

    docker_image: str | None = None
    build_timeout_sec: PositiveSeconds = DEFAULT_SETUP_SECONDS
    cpus: Annotated[float, Field(gt=0)] | None = None
    memory_mb: Annotated[int, Field(gt=0)] | None = None
    storage_mb: Annotated[int, Field(gt=0)] | None = None
    gpus: int | None = None
    tpu: dict[str, Any] | None = None
    os: Annotated[str, BeforeValidator(_lower)] = "linux"
    network_mode: NetworkName | None = None
    allow_internet: bool | None = None

    @model_validator(mode="before")
    @classmethod
    def _older_names(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        for old, new in (("memory", "memory_mb"), ("storage", "storage_mb")):
            if isinstance(size := data.get(old), str):
                number, unit = size.strip().upper()[:-1], size.strip().upper()[-1:]
                if unit not in _UNITS:
                    raise ValueError(f"{old} must look like 2G, 512M or 1024K")
                data = {new: int(float(number) * _UNITS[unit]), **data}
        return data

    @property
    def network(self) -> NetworkName | None:
        """The network mode that is stated, by its present or its former name."""
        if self.network_mode or self.allow_internet is None:
            return self.network_mode
        return "public" if self.allow_internet else "no-network"

    def resources(self) -> TaskResources:
        """What the table asks for; Assay's defaults where it says nothing."""
        stated = {
            "cpu_millis": None if self.cpus is None else math.ceil(self.cpus * 1000),
            "memory_mib": self.memory_mb,
            "storage_mib": self.storage_mb,
        }
        return TaskResources(**{name: value for name, value in stated.items() if value is not None})


class AgentTable(_Part):
    """`[agent]`, of the task or of a step."""

    timeout_sec: PositiveSeconds | None = None
    network_mode: NetworkName | None = None


class VerifierTable(_Part):
    """`[verifier]`, of the task or of a step."""

    timeout_sec: PositiveSeconds | None = None
    network_mode: NetworkName | None = None
    environment_mode: VerifierMode | None = None
    environment: EnvironmentTable | None = None


class StepTable(_Part):
    """One of `[[steps]]`."""

    name: str
    agent: AgentTable = AgentTable()
    verifier: VerifierTable = VerifierTable()


class PackageTable(_Part):
    """`[task]`."""

    name: str


class TaskFile(_Part):
    """A `task.toml`."""

    task: PackageTable | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)
    environment: EnvironmentTable = EnvironmentTable()
    agent: AgentTable = AgentTable()
    verifier: VerifierTable = VerifierTable()
    steps: list[StepTable] = Field(default_factory=list)

    @property
    def verifier_mode(self) -> VerifierMode:
        """Where the verifier runs, as Harbor decides it."""
        stated = self.verifier.environment_mode
        return stated or (VerifierMode.SEPARATE if self.verifier.environment else VerifierMode.SHARED)

    def metadata_text(self, *names: str) -> str | None:
        """The first of these metadata fields that is a text that is not blank."""
        for name in names:
            value = self.metadata.get(name)
            if isinstance(value, str) and value.strip():
                return value.strip()
        return None


def parse_task_file(content: bytes) -> TaskFile:
    """The task file. Raises TaskFileError naming the field."""
    try:
        return TaskFile.model_validate(tomllib.loads(content.decode()))
    except UnicodeDecodeError as error:
        raise TaskFileError("task.toml", "is not UTF-8", "save it as UTF-8") from error
    except tomllib.TOMLDecodeError as error:
        raise TaskFileError("task.toml", f"is not TOML: {error}", "correct the line") from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        raise TaskFileError(f"task.toml {field}", first["msg"], "correct the value") from error
