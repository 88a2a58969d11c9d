"""What a variant's spec means: its fingerprint, and what a try is told of it."""

import json
from typing import Any

from assay.api.agent_variant import AgentVariantSpec, Model
from assay.api.tryspec import AgentSpec, ModelTarget, SecretKeyRef
from assay.core.canonical import digest_of


def fingerprint(spec: AgentVariantSpec) -> str:
    """sha256 over the canonical JSON of the spec, defaults included and absent fields left out.

    `displayName` is part of it: two variants that a report calls differently are two variants.
    """
    return digest_of(spec)


def literal(text: str) -> Any:
    """The value that an argument's text stands for: JSON where it is JSON, else the text itself."""
    try:
        return json.loads(text, parse_constant=_not_json)
    except ValueError:
        return text


def _not_json(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def agent_spec(spec: AgentVariantSpec) -> AgentSpec:
    """The agent as a try is told of it."""
    return AgentSpec(
        name=spec.agent.name,
        version=spec.agent.version,
        arguments={name: literal(text) for name, text in spec.agent.arguments.items()},
        environment={variable.name: variable.value for variable in spec.agent.environment},
    )


def model_targets(spec: AgentVariantSpec) -> list[ModelTarget]:
    """The models as a try is told of them, in the order of the spec: the gateway knows them by index."""
    return [_target(model) for model in spec.models]


def _target(model: Model) -> ModelTarget:
    secret = model.provider.secret_ref
    return ModelTarget(
        role=model.role,
        name=model.name,
        api=model.provider.api,
        endpoint=model.provider.endpoint,
        secret_ref=SecretKeyRef(name=secret.name, key=secret.key) if secret else None,
        reasoning_effort=model.reasoning_effort,
        sampling={name: literal(text) for name, text in model.sampling.items()},
    )
