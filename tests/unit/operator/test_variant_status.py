"""What an AgentVariant's condition tells its author."""

from typing import Any

from assay.api.agent_variant import AgentVariant
from assay.handlers.variants import variant_status
from tests.api import samples
from tests.operator_kit import builders as make


def variant(document: dict[str, Any]) -> AgentVariant:
    document["metadata"]["namespace"] = "evals"
    return AgentVariant.parse(document)


def test_it_says_which_secrets_need_the_label_that_only_the_gateway_can_check() -> None:
    (condition,) = variant_status(variant(samples.variant()), make.NOW).conditions
    assert 'labelled assay.dev/provider-key: "true"' in condition.message
    assert condition.message.endswith("named: provider")


def test_it_says_nothing_of_secrets_where_none_is_named() -> None:
    document = samples.variant()
    document["spec"]["models"] = []
    (condition,) = variant_status(variant(document), make.NOW).conditions
    assert condition.message == ""
