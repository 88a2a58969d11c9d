"""What a provider refuses, and what the model gateway refuses itself."""

from pathlib import Path
from typing import Any

import pytest

from assay.api.ledgerfile import NetworkMode
from assay.api.outcome import OutcomeClass
from assay.api.tryspec import ModelTarget
from tests.runner.model_gateway_setup import (
    ANSWER,
    ASK,
    CLAUDE,
    MAIN,
    QUESTION,
    answering,
    completion,
    gateway_for,
)


@pytest.mark.parametrize(
    ("status", "body", "fault"),
    [
        (401, {"error": {"message": "Incorrect API key"}}, OutcomeClass.PROVIDER_AUTH),
        (402, {"error": {"message": "Payment required"}}, OutcomeClass.PROVIDER_FUNDS),
        (429, {"error": {"message": "slow down"}}, OutcomeClass.PROVIDER_RATE_LIMITED),
        (429, {"error": {"code": "insufficient_quota"}}, OutcomeClass.PROVIDER_FUNDS),
        (503, {"error": {"message": "overloaded"}}, OutcomeClass.PROVIDER_RATE_LIMITED),
        (400, {"error": {"code": "context_length_exceeded"}}, OutcomeClass.CONTEXT_EXCEEDED),
        (400, {"error": {"message": "messages: field required"}}, None),
    ],
)
async def test_providers_refusals(
    tmp_path: Path, status: int, body: dict[str, Any], fault: OutcomeClass | None
) -> None:
    async with gateway_for(tmp_path, answering(status, body)) as setup:
        async with setup.post("/m/0/v1/chat/completions", QUESTION) as answer:
            assert (answer.status, await answer.json()) == (status, body)
        (record,) = setup.records

    assert record.status == status
    assert setup.calls.summaries[0].fault is fault


async def test_gateways_own_errors_are_told_apart(tmp_path: Path) -> None:
    body = {"error": {"code": "SecretMissing", "message": "Secret openai has no key api-key"}}
    provider = answering(403, body, **{"X-Assay-Error": "SecretMissing"})
    async with gateway_for(tmp_path, provider) as setup:
        async with setup.post("/m/0/v1/chat/completions", QUESTION) as answer:
            assert answer.headers["X-Assay-Error"] == "SecretMissing"
        (record,) = setup.records

    assert record.error is not None
    assert record.error.startswith("SecretMissing: ")
    assert setup.calls.summaries[0].fault is OutcomeClass.PROVIDER_AUTH


@pytest.mark.parametrize(
    "fields",
    [
        {"tools": [{"type": "web_search"}]},
        {"tools": [{"type": "function", "function": {"name": "f"}}, {"type": "code_interpreter"}]},
        {"web_search_options": {"search_context_size": "low"}},
        {"plugins": [{"id": "web"}]},
        {"model": "gpt-x:online"},
    ],
)
async def test_hosted_tools_are_refused_without_network(tmp_path: Path, fields: dict[str, Any]) -> None:
    async with gateway_for(tmp_path, answering(200, completion())) as setup:
        async with setup.post("/m/0/v1/chat/completions", QUESTION | fields) as answer:
            assert answer.status == 403
            assert (await answer.json())["error"]["code"] == "HostedToolRefused"
        (record,) = setup.records

    assert setup.upstream.calls == []
    assert record.blocked_tools
    assert setup.calls.summaries[0].refused_by_assay
    assert setup.calls.summaries[0].fault is None


async def test_hosted_tools_are_forwarded_with_network(tmp_path: Path) -> None:
    provider = answering(200, completion())
    async with gateway_for(tmp_path, provider, network=NetworkMode.INTERNET) as setup:
        tools = {"tools": [{"type": "web_search"}]}
        answer = await setup.post("/m/0/v1/chat/completions", QUESTION | tools)
        assert answer.status == 200


@pytest.mark.parametrize(
    "headers", [{"Authorization": "Bearer nonsense"}, {"x-api-key": "x"}, {"Accept": "*/*"}]
)
async def test_only_this_trys_token_is_served(tmp_path: Path, headers: dict[str, str]) -> None:
    async with gateway_for(tmp_path, answering(200, completion())) as setup:
        async with setup.post("/m/0/v1/chat/completions", QUESTION, **headers) as answer:
            assert answer.status == 401
        assert setup.upstream.calls == []
        assert setup.records == []


async def test_other_paths_and_bodies(tmp_path: Path) -> None:
    async with gateway_for(tmp_path, answering(200, completion())) as setup:
        for path, body, status in (
            ("/m/0/v1/responses", {}, 404),
            ("/m/7/v1/chat/completions", QUESTION, 404),
            ("/m/0/v1/chat/completions", ["not", "an", "object"], 400),
        ):
            async with setup.post(path, body) as answer:
                assert answer.status == status, path
        headers = {"Authorization": f"Bearer {setup.token}"}
        async with setup.session.get(f"{setup.url}/m/0/v1/models", headers=headers) as answer:
            assert [model["id"] for model in (await answer.json())["data"]] == [
                "openai/gpt-x",
                "openai/gpt-y",
            ]
    assert setup.upstream.calls == []


async def test_deeply_nested_body_is_refused(tmp_path: Path) -> None:
    nested = b'{"model":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    async with gateway_for(tmp_path, answering(200, completion())) as setup:
        headers = {"Authorization": f"Bearer {setup.token}"}
        url = f"{setup.url}/m/0/v1/chat/completions"
        async with setup.session.post(url, data=nested, headers=headers) as answer:
            assert answer.status == 400


@pytest.mark.parametrize(
    ("model", "path", "body", "answer"),
    [
        (CLAUDE, "/m/0/v1/messages", ASK, {**ANSWER, "stop_reason": "refusal"}),
        (
            MAIN,
            "/m/0/v1/chat/completions",
            QUESTION,
            completion(choices=[{"message": {"refusal": "I will not"}, "finish_reason": "stop"}]),
        ),
        (
            MAIN,
            "/m/0/v1/chat/completions",
            QUESTION,
            completion(choices=[{"message": {}, "finish_reason": "content_filter"}]),
        ),
    ],
)
async def test_refusal_markers(
    tmp_path: Path, model: ModelTarget, path: str, body: dict[str, Any], answer: dict[str, Any]
) -> None:
    async with gateway_for(tmp_path, answering(200, answer), model) as setup:
        await setup.post(path, body)
        (record,) = setup.records

    assert record.refusal
    assert setup.calls.summaries[0].refusal
