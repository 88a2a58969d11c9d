"""`ledger.jsonl`: one header line with the analysis plan, then one canonical-JSON line a task."""

from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from assay.api.base import Digest, ImageByDigest, Record, VersionedRecord

TaskId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]*$", max_length=250)]
Percent = Annotated[int, Field(ge=1, le=10_000)]
Seconds = Annotated[int, Field(ge=1, le=7 * 24 * 3600)]

UnknowableField = Literal["licence", "difficulty", "baseCommit"]
"""Facts that a header may allow to be unknown: a licence or difficulty of value `unknown`, no base commit."""

UNKNOWN = "unknown"
"""Value of a labelled fact that nobody stated; allowed only where the header says so."""


class VerifierMode(StrEnum):
    """Where the verifier runs: in the agent's own container, or in a pristine one."""

    SHARED = "shared"
    SEPARATE = "separate"


class NetworkMode(StrEnum):
    """What the agent's phase may reach beside the gateway."""

    NONE = "none"
    INTERNET = "internet"


class ResourceMultiples(Record):
    """Kubernetes requests and limits as whole percent of what the task asks for."""

    request_percent: Percent = 100
    limit_percent: Percent = 100


class RetryLimits(Record):
    """How many further tries a class of outcome may have; 0 means none."""

    infrastructure: Annotated[int, Field(ge=0, le=10)] = 3
    disruption: Annotated[int, Field(ge=0, le=100)] = 20
    verification: Annotated[int, Field(ge=0, le=10)] = 3
    refusal: Annotated[int, Field(ge=0, le=50)] = 10


class Plan(Record):
    """The analysis plan: how the ledger is measured, fixed before any result."""

    primary_metric: str = Field(default="reward", max_length=64)
    repetitions: Annotated[int, Field(ge=1, le=100)] = 1
    timeout_percent: Percent = 100
    resources: ResourceMultiples = ResourceMultiples()
    retry_limits: RetryLimits = RetryLimits()


class LedgerHeader(VersionedRecord):
    """First line of a ledger file."""

    benchmark: str = Field(min_length=1, max_length=100)
    version: str = Field(min_length=1, max_length=50)
    harness_tree: str | None = Field(default=None, pattern=r"^[0-9a-f]{40}([0-9a-f]{24})?$")
    plan: Plan = Plan()
    allow_unknown: list[UnknowableField] = Field(
        default_factory=list, max_length=3, description="Facts that may be unknown; counted and shown."
    )
    task_count: Annotated[int, Field(ge=1, le=100_000)]


class LabelledFact(Record):
    """A fact that somebody stated: its value, who says so, and since when (ISO date).

    The value `unknown` needs no date, and is allowed only where the ledger's header says so.
    """

    value: str = Field(min_length=1, max_length=100)
    source: str = Field(min_length=1, max_length=500)
    date: str | None = Field(default=None, pattern=r"^\d{4}-\d{2}-\d{2}$")

    @model_validator(mode="after")
    def _dated_unless_unknown(self) -> Self:
        if self.date is None and self.value != UNKNOWN:
            raise ValueError('date is missing: since when has this been stated? Write date = "YYYY-MM-DD"')
        return self


class TaskResources(Record):
    """What the task asks for, before the plan's multiples."""

    cpu_millis: Annotated[int, Field(ge=1, le=1_024_000)] = 1000
    memory_mib: Annotated[int, Field(ge=16, le=16_777_216)] = 2048
    storage_mib: Annotated[int, Field(ge=16, le=67_108_864)] = 10_240


class TaskTimeouts(Record):
    """Seconds a phase may take, before the plan's multiple."""

    setup_seconds: Seconds = 600
    agent_seconds: Seconds = 3600
    verifier_seconds: Seconds = 600


class TaskImages(Record):
    """The images that really run, by digest; `published` is the name that the task's own files give."""

    environment: ImageByDigest
    verifier: ImageByDigest | None = None
    published: str | None = Field(default=None, max_length=512)


class TaskLine(Record):
    """One task of a ledger. `line_digest` covers the canonical JSON of all other fields."""

    id: TaskId
    archive_digest: Digest
    archive_bytes: Annotated[int, Field(ge=1)]
    harbor_digest: Digest
    licence: LabelledFact
    difficulty: LabelledFact
    category: str | None = Field(default=None, max_length=100)
    language: str | None = Field(default=None, max_length=50)
    repository: str | None = Field(default=None, max_length=500)
    base_commit: str | None = Field(default=None, pattern=r"^[0-9a-f]{7,64}$")
    images: TaskImages
    verifier_mode: VerifierMode
    network: NetworkMode
    resources: TaskResources
    timeouts: TaskTimeouts
    steps: Annotated[int, Field(ge=1, le=100)] = 1
    cluster: str = Field(min_length=1, max_length=300)
    cluster_reason: str = Field(min_length=1, max_length=500)
    line_digest: Digest
