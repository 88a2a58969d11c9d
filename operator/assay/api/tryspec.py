"""What the operator tells a try: the one document that runner and gateway both read.

It travels as the pod's annotation `assay.dev/try-spec` (at most 64 KiB), so what the gateway allows and what
the runner does cannot differ. It holds names of Secrets, never their values.

The runner of a live run may be older than the operator, and refuses a field that it does not know. So a new
field is optional, its default means what older versions did, and no default changes: docs/decisions/0011.
"""

import json
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from assay.api.base import Digest, DNSLabel, DNSName, Record, VersionedRecord
from assay.api.ledgerfile import NetworkMode, Seconds, TaskId, VerifierMode
from assay.api.outcome import OutcomeClass

ModelRole = Literal["main", "subagent", "fallback", "judge"]
ProviderAPI = Literal["OpenAIChat", "AnthropicMessages"]


class AttemptIdentity(Record):
    """Which attempt, and which try of it."""

    run_name: DNSName
    run_uid: str = Field(pattern=r"^[0-9a-f-]{36}$")
    namespace: DNSLabel
    ledger: DNSName
    task: TaskId
    variant: DNSName
    repetition: Annotated[int, Field(ge=0, le=99)]
    try_number: Annotated[int, Field(ge=1, le=999)]
    job_name: DNSLabel


class SecretKeyRef(Record):
    """A key of a Secret in the run's namespace."""

    name: DNSName
    key: str = Field(pattern=r"^[-._a-zA-Z0-9]+$", max_length=253)


class ModelTarget(Record):
    """One model that the variant declares, by role, and where the gateway finds it."""

    role: ModelRole
    name: str = Field(min_length=1, max_length=200)
    api: ProviderAPI
    endpoint: str = Field(pattern=r"^https?://", max_length=500)
    secret_ref: SecretKeyRef | None = None
    reasoning_effort: str | None = Field(default=None, max_length=50)
    sampling: dict[str, Any] = Field(default_factory=dict)


class AgentSpec(Record):
    """The agent as Harbor knows it, with everything that can change its behaviour."""

    name: str = Field(min_length=1, max_length=100)
    version: str | None = Field(default=None, max_length=100)
    arguments: dict[str, Any] = Field(default_factory=dict)
    environment: dict[str, str] = Field(default_factory=dict)


class Deadlines(Record):
    """Seconds a phase may take; the agent's clock starts in the container."""

    setup_seconds: Seconds
    agent_seconds: Seconds
    verifier_seconds: Seconds
    upload_seconds: Seconds


class TaskRef(Record):
    """The task as the ledger froze it."""

    id: TaskId
    archive_digest: Digest
    verifier_mode: VerifierMode
    network: NetworkMode
    environment_image: str = Field(max_length=512)
    verifier_image: str | None = Field(default=None, max_length=512)
    crossing_files: Annotated[list[str], Field(max_length=50)] = Field(
        default_factory=list,
        description="Files that cross to a separate verifier beside those that the task itself names.",
    )


class StorageTarget(Record):
    """Where evidence goes; the endpoint is the gateway's configuration."""

    bucket: str = Field(pattern=r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$")
    prefix: str = Field(max_length=300, pattern=r"^([A-Za-z0-9._-]+/)*$")
    archive_prefix: str = Field(default="tasks/", max_length=300)
    archive_bucket: str | None = Field(
        default=None,
        pattern=r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$",
        description="Bucket of the task archives, where the ledger lies; None = the evidence's.",
    )


class VerifyOnly(Record):
    """The try of the same attempt whose artefacts a try without an agent judges again."""

    try_number: Annotated[int, Field(ge=1, le=999)]
    pod_uid: str = Field(pattern=r"^[0-9a-f-]{36}$")
    manifest_digest: Digest = Field(description="Of that try's manifest.json.")
    artifacts_digest: Digest = Field(description="Of the artefacts that its manifest lists.")
    graded_as: OutcomeClass = Field(
        default=OutcomeClass.GRADED, description="Class of the attempt once it has a verdict."
    )


class TrySpec(VersionedRecord):
    """Everything that one try needs to know."""

    identity: AttemptIdentity
    ledger_digest: Digest
    variant_fingerprint: Digest
    task: TaskRef
    agent: AgentSpec
    models: Annotated[list[ModelTarget], Field(max_length=8)] = Field(default_factory=list)
    deadlines: Deadlines
    storage: StorageTarget
    gateway_url: str = Field(pattern=r"^https?://", max_length=300)
    verify_only: VerifyOnly | None = Field(
        default=None, description="None = an ordinary try; else no agent runs and no model can be called."
    )

    @model_validator(mode="after")
    def _no_model_without_an_agent(self) -> Self:
        if self.verify_only is not None and self.models:
            raise ValueError("models must be empty where verifyOnly is given: no agent runs")
        return self

    def annotation(self) -> str:
        """JSON for the pod: what equals its default is left out, so that older runners can read the rest."""
        fields = self.model_dump(mode="json", exclude_defaults=True)
        return json.dumps({"schemaVersion": self.schema_version, **fields}, ensure_ascii=False)
