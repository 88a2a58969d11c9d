"""The AgentVariant resource: an agent with everything that can change its behaviour."""

from enum import StrEnum
from typing import Annotated, ClassVar, Literal

from pydantic import ConfigDict, Field, StringConstraints

from assay.api.base import ImageByDigest
from assay.api.labels import PROVIDER_KEY
from assay.api.resource import (
    BoundedDigest,
    Conditions,
    Count,
    Names,
    ObjectMeta,
    PrinterColumn,
    Resource,
    SpecPart,
    StatusPart,
    condition_column,
    list_map,
    rules,
)


class VariantCondition(StrEnum):
    """Condition types of an AgentVariant."""

    ACCEPTED = "Accepted"
    """The operator understands the spec and has computed its fingerprint."""


class VariantReason(StrEnum):
    """Reasons of an AgentVariant's conditions."""

    FINGERPRINTED = "Fingerprinted"
    """The spec is understood, and `status.fingerprint` is its digest."""
    INVALID_SPEC = "InvalidSpec"
    """The spec is valid for the API server and yet cannot be run; the message names the field."""


Literals = Annotated[
    dict[
        Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]*$", max_length=100)],
        Annotated[str, StringConstraints(max_length=4096)],
    ],
    Field(max_length=32),
]
"""Names with values as text. A value that is JSON is read as JSON, any other as text (core.variants)."""


class EnvironmentVariable(SpecPart):
    """A variable in the environment of the agent's own process. Never a secret: the agent can read it."""

    name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=100)] = Field(
        description="name of the variable."
    )
    value: Annotated[str, StringConstraints(max_length=4096)] = Field(description="value of the variable.")


class Agent(SpecPart):
    """The agent as Harbor knows it."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=100)] = Field(
        description="name of the agent in Harbor: oracle, nop, terminus-2, claude-code, …"
    )
    version: Annotated[str, StringConstraints(min_length=1, max_length=100)] | None = Field(
        default=None,
        description="version of the agent; a try in which another version runs is refused. "
        "Absent only for agents that are part of Harbor, whose version pins them.",
    )
    bundle_image: ImageByDigest | None = Field(
        default=None,
        description="bundleImage holds the agent installed for offline use, by digest; "
        "nothing is fetched when a try runs.",
    )
    arguments: Literals = Field(
        default_factory=dict,
        description="arguments of the agent as Harbor's --agent-kwarg takes them (prompt, tools, MCP "
        'servers, permissions, context limits, …); a value that is JSON is read as JSON: max_turns: "50".',
    )
    environment: Annotated[
        list[EnvironmentVariable],
        Field(max_length=32, json_schema_extra=list_map("name"), default_factory=list),
    ] = Field(description="environment variables of the agent's process; never secrets.")


class SecretReference(SpecPart):
    """A key of a Secret in the same namespace. Only the gateway reads it, and only with its label."""

    name: Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", max_length=253)] = (
        Field(description=f"name of the Secret, which needs the label {PROVIDER_KEY} of value true.")
    )
    key: Annotated[str, StringConstraints(pattern=r"^[-._a-zA-Z0-9]+$", max_length=253)] = Field(
        description="key in the Secret's data."
    )


class Provider(SpecPart):
    """Where a model is served."""

    endpoint: Annotated[str, StringConstraints(pattern=r"^https?://[^\s]+$", max_length=500)] = Field(
        description="endpoint is the base URL of the API, e.g. https://api.example/v1."
    )
    api: Literal["OpenAIChat", "AnthropicMessages"] = Field(
        description="api is the protocol that the endpoint speaks: OpenAIChat or AnthropicMessages."
    )
    secret_ref: SecretReference | None = Field(
        default=None,
        description="secretRef names the provider's key; absent for an endpoint that asks for none.",
    )


class Model(SpecPart):
    """One model in one role."""

    role: Literal["main", "subagent", "fallback", "judge"] = Field(
        description="role in which the agent uses the model: main, subagent, fallback or judge."
    )
    name: Annotated[str, StringConstraints(min_length=1, max_length=200)] = Field(
        description="name of the model as the agent asks for it, e.g. openai/gpt-x; "
        "a call that asks for another is recorded as undeclared."
    )
    reasoning_effort: Annotated[str, StringConstraints(min_length=1, max_length=50)] | None = Field(
        default=None, description="reasoningEffort is the reasoning setting of the model, e.g. high."
    )
    sampling: Literals = Field(
        default_factory=dict,
        description='sampling settings by their name on the wire: temperature: "0.2", max_tokens: "4096".',
    )
    provider: Provider = Field(description="provider is where the model is served, and with which key.")


class AgentVariantSpec(SpecPart):
    """What the variant is. Immutable: another setting is another variant."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "!has(self.models) || self.models.size() == 0 || self.models.exists_one(m, m.role == 'main')",
                "models must hold exactly one of role main",
            )
        )
    )

    display_name: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = Field(
        default=None, description="displayName is what reports call the variant; absent = its name."
    )
    agent: Agent = Field(description="agent is the program that works on the task.")
    models: Annotated[
        list[Model],
        Field(max_length=8, json_schema_extra=list_map("role", "name"), default_factory=list),
    ] = Field(description="models that the agent may call; empty for an agent that calls none.")


class AgentVariantStatus(StatusPart):
    """What the operator found."""

    observed_generation: Count = Field(
        default=0, description="observedGeneration is the metadata.generation that this status is of."
    )
    conditions: Conditions = Field(default_factory=list, description="conditions: Accepted.", max_length=16)
    fingerprint: BoundedDigest | None = Field(
        default=None, description="fingerprint is sha256 over the canonical JSON (RFC 8785) of the spec."
    )


class AgentVariant(Resource):
    """An AgentVariant names an agent plus everything that can change its behaviour."""

    names: ClassVar[Names] = Names(
        kind="AgentVariant", plural="agentvariants", singular="agentvariant", short="variant"
    )
    columns: ClassVar[tuple[PrinterColumn, ...]] = (
        PrinterColumn(name="Agent", type="string", path=".spec.agent.name", description="Agent in Harbor."),
        PrinterColumn(
            name="Model",
            type="string",
            path='.spec.models[?(@.role=="main")].name',
            description="Model in the main role.",
        ),
        condition_column("Accepted", "Whether the operator understands the spec."),
        PrinterColumn(
            name="Fingerprint",
            type="string",
            path=".status.fingerprint",
            description="Digest of the canonical spec.",
            priority=1,
        ),
    )
    root_rules: ClassVar[tuple[tuple[str, str], ...]] = (
        (
            "self.spec == oldSelf.spec",
            "spec is immutable: another setting is another variant; create an AgentVariant with a new name",
        ),
    )

    api_version: Literal["assay.dev/v1alpha1"] = "assay.dev/v1alpha1"
    kind: Literal["AgentVariant"] = "AgentVariant"
    metadata: ObjectMeta
    spec: AgentVariantSpec = Field(description="spec is the variant's identity; immutable.")
    status: AgentVariantStatus = Field(
        default_factory=AgentVariantStatus, description="status is what the operator found."
    )
