"""A variant's fingerprint, and what a try is told of it."""

from typing import Any

import pytest

from assay.api.agent_variant import AgentVariantSpec
from assay.core.variants import agent_spec, fingerprint, literal, model_targets

SPEC: dict[str, Any] = {
    "displayName": "One",
    "agent": {"name": "terminus-2", "arguments": {"max_turns": "50", "parser": "json"}},
    "models": [
        {
            "role": "main",
            "name": "openai/gpt-x",
            "reasoningEffort": "high",
            "sampling": {"temperature": "0.2"},
            "provider": {"endpoint": "https://api.example/v1", "api": "OpenAIChat"},
        }
    ],
}


def spec(**changes: Any) -> AgentVariantSpec:
    return AgentVariantSpec.model_validate({**SPEC, **changes})


def test_the_fingerprint_of_a_fixed_spec_is_fixed() -> None:
    # Another value would make every recorded result one of another variant.
    assert fingerprint(spec()) == "sha256:083cd19073fdbd2bda83640a43890c76048f01ee839616e0d76cbfbea9598b7f"


def test_the_order_of_keys_and_defaults_that_are_written_out_do_not_matter() -> None:
    written_out = {
        **dict(reversed(SPEC.items())),
        "agent": {
            "environment": [],
            "arguments": {"parser": "json", "max_turns": "50"},
            "name": "terminus-2",
        },
    }
    assert fingerprint(AgentVariantSpec.model_validate(written_out)) == fingerprint(spec())


@pytest.mark.parametrize(
    "changes",
    [
        {"displayName": "Two"},
        {"agent": {**SPEC["agent"], "version": "1"}},
        {"agent": {**SPEC["agent"], "arguments": {"max_turns": "51", "parser": "json"}}},
        {"models": [{**SPEC["models"][0], "reasoningEffort": "low"}]},
        {"models": [{**SPEC["models"][0], "sampling": {"temperature": "0.20"}}]},
        {"models": []},
    ],
)
def test_two_variants_that_differ_have_two_fingerprints(changes: dict[str, Any]) -> None:
    assert fingerprint(spec(**changes)) != fingerprint(spec())


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("50", 50),
        ("0.2", 0.2),
        ("true", True),
        ("null", None),
        ('["a", 1]', ["a", 1]),
        ('{"a": 1}', {"a": 1}),
        ('"50"', "50"),
        ("json", "json"),
        ("", ""),
        ("NaN", "NaN"),
        ("Infinity", "Infinity"),
    ],
)
def test_an_argument_that_is_json_is_read_as_json(text: str, value: object) -> None:
    assert literal(text) == value
    assert type(literal(text)) is type(value)


def test_a_try_is_told_all_of_the_variant() -> None:
    agent = agent_spec(spec())
    assert agent.arguments == {"max_turns": 50, "parser": "json"}
    (model,) = model_targets(spec())
    assert model.sampling == {"temperature": 0.2}
    assert (model.role, model.name, model.reasoning_effort) == ("main", "openai/gpt-x", "high")
    assert model.secret_ref is None


def test_a_field_that_this_version_does_not_know_is_refused() -> None:
    with pytest.raises(ValueError, match="turbo"):
        spec(turbo=True)
