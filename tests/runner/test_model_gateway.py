"""The model gateway between an agent and a provider: what it forwards, meters and records."""

import json
from pathlib import Path
from typing import Any

import pytest

from assay.api.evidence import TokenCounts
from tests.runner.gateway_double import TOKEN
from tests.runner.model_gateway_setup import (
    ANSWER,
    ANTHROPIC_TOKENS,
    ASK,
    CLAUDE,
    QUESTION,
    answering,
    completion,
    gateway_for,
)


async def test_call_is_forwarded_metered_and_recorded(tmp_path: Path) -> None:
    async with gateway_for(tmp_path, answering(200, completion())) as setup:
        async with setup.post("/m/0/v1/chat/completions", {**QUESTION, "max_tokens": 50}) as answer:
            assert answer.status == 200
            assert (await answer.json()) == completion()
        (path, sent, headers), (record,) = setup.upstream.calls[0], setup.records

    assert path == "/v1/models/0/chat/completions"
    assert sent == {**QUESTION, "max_tokens": 50}
    assert setup.token not in json.dumps(headers)
    assert record.status == 200
    assert record.role == "main"
    assert (record.model_asked, record.model_answered) == ("gpt-x", "gpt-x-2026-03-01")
    assert record.tokens == TokenCounts(input=100, cache_read=64, reasoning=8, output=20)
    assert record.settings == {"max_tokens": 50}
    assert record.stop_reason == "stop"
    assert record.undeclared == []
    assert record.request["messages"] == QUESTION["messages"]
    assert record.response["choices"][0]["message"]["content"] == "42"
    assert setup.calls.tokens.input == 100


async def test_another_declared_model_is_found_by_its_name(tmp_path: Path) -> None:
    async with gateway_for(tmp_path, answering(200, completion(model="gpt-y"))) as setup:
        await setup.post("/m/0/v1/chat/completions", {**QUESTION, "model": "openai/gpt-y"})
        (record,) = setup.records

    assert setup.upstream.calls[0][0] == "/v1/models/1/chat/completions"
    assert (record.role, record.undeclared) == ("subagent", [])


@pytest.mark.parametrize(
    ("request_fields", "answered", "undeclared"),
    [
        ({"model": "gpt-z"}, "gpt-z", ["model gpt-z"]),
        ({"temperature": 0.2}, "gpt-x", ["temperature=0.2"]),
        ({"reasoning_effort": "low"}, "gpt-x", ["reasoning_effort='low'"]),
        ({}, "gpt-mini", ["answered by gpt-mini"]),
        ({"max_completion_tokens": 9, "tool_choice": "auto", "user": "u"}, "gpt-x", []),
    ],
)
async def test_what_the_variant_does_not_declare_is_flagged(
    tmp_path: Path, request_fields: dict[str, Any], answered: str, undeclared: list[str]
) -> None:
    async with gateway_for(tmp_path, answering(200, completion(model=answered))) as setup:
        await setup.post("/m/0/v1/chat/completions", QUESTION | request_fields)
        (record,) = setup.records

    assert record.undeclared == undeclared
    assert setup.calls.flags == (["UndeclaredConfig"] if undeclared else [])


async def test_bodies_are_scrubbed(tmp_path: Path) -> None:
    message = {"role": "user", "content": f"token {TOKEN} and sk-proj-abcdef1234567890"}
    async with gateway_for(tmp_path, answering(200, completion())) as setup:
        await setup.post("/m/0/v1/chat/completions", {"model": "gpt-x", "messages": [message]})
        written = b"".join(file.read_bytes() for file in setup.folder.iterdir())

    assert TOKEN.encode() not in written
    assert b"sk-proj-" not in written
    # The provider gets what the agent sent.
    assert setup.upstream.calls[0][1]["messages"] == [message]


async def test_text_that_utf_8_cannot_hold_is_forwarded_and_recorded(tmp_path: Path) -> None:
    content = "half a pair: \ud83d"
    answer = completion(choices=[{"message": {"content": content}, "finish_reason": "stop"}])
    body = {"model": "gpt-x", "messages": [{"role": "user", "content": content}], "stop": content}
    async with gateway_for(tmp_path, answering(200, answer)) as setup:
        async with setup.post("/m/0/v1/chat/completions", body) as response:
            assert await response.json() == answer
        (record,) = setup.records

    assert setup.upstream.calls[0][1] == body
    assert record.request["messages"][0]["content"] == "half a pair: ?"
    assert record.settings == {"stop": "half a pair: ?"}


async def test_anthropic_message(tmp_path: Path) -> None:
    async with gateway_for(tmp_path, answering(200, ANSWER), CLAUDE) as setup:
        async with setup.post("/m/0/v1/messages", ASK, **{"x-api-key": setup.token}) as answer:
            assert await answer.json() == ANSWER
        (record,) = setup.records

    assert setup.upstream.calls[0][0] == "/v1/models/0/messages"
    assert record.tokens == ANTHROPIC_TOKENS
    assert record.undeclared == []
    assert record.stop_reason == "end_turn"


async def test_counting_tokens_is_no_model_call(tmp_path: Path) -> None:
    async with gateway_for(tmp_path, answering(200, {"input_tokens": 4}), CLAUDE) as setup:
        async with setup.post("/m/0/v1/messages/count_tokens", ASK) as answer:
            assert answer.status == 200
        assert [record.path for record in setup.records] == ["messages/count_tokens"]
    assert setup.calls.summaries == []
