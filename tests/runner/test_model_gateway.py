"""The model gateway between an agent and a provider: what it forwards, meters, records and refuses."""

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from assay.api.evidence import CallRecord, TokenCounts
from assay.api.ledgerfile import NetworkMode
from assay.api.outcome import OutcomeClass
from assay.api.tryspec import ModelTarget
from assay.runner.gateway_client import GatewayClient
from assay.runner.model_gateway.call_log import CallLog
from assay.runner.model_gateway.server import ModelGateway
from assay.runner.scrub import Scrubber
from tests.runner.gateway_double import TOKEN, GatewayDouble, Provider, serving

MAIN = ModelTarget(role="main", name="openai/gpt-x", api="OpenAIChat", endpoint="https://provider.test/v1")
SUB = ModelTarget(role="subagent", name="openai/gpt-y", api="OpenAIChat", endpoint="https://provider.test/v1")
CLAUDE = ModelTarget(
    role="main",
    name="anthropic/claude-x",
    api="AnthropicMessages",
    endpoint="https://provider.test",
    reasoning_effort="high",
    sampling={"temperature": 1},
)
QUESTION = {"model": "gpt-x", "messages": [{"role": "user", "content": "6 times 7?"}]}


@dataclass
class Setup:
    """A running model gateway with a double of the cluster's gateway behind it."""

    url: str
    token: str
    calls: CallLog
    folder: Path
    upstream: GatewayDouble
    session: aiohttp.ClientSession

    def post(self, path: str, body: Any, **headers: str) -> Any:
        headers = headers or {"Authorization": f"Bearer {self.token}"}
        return self.session.post(f"{self.url}{path}", json=body, headers=headers)

    @property
    def records(self) -> list[CallRecord]:
        self.calls.close_segment()
        lines = [
            line for file in sorted(self.folder.glob("*.jsonl")) for line in file.read_bytes().splitlines()
        ]
        return [CallRecord.model_validate_json(line) for line in lines]


@contextlib.asynccontextmanager
async def gateway_for(
    tmp_path: Path, provider: Provider, *models: ModelTarget, network: NetworkMode = NetworkMode.NONE
) -> AsyncIterator[Setup]:
    token_file = tmp_path / "token"
    token_file.write_text(TOKEN)
    upstream = GatewayDouble(provider=provider)
    scrubber = Scrubber()
    async with (
        serving(upstream, socket.create_server(("127.0.0.1", 0))),
        GatewayClient(upstream.url, token_file, scrubber.add) as client,
        aiohttp.ClientSession() as session,
    ):
        calls = CallLog(tmp_path / "calls", scrubber)
        gateway = ModelGateway(list(models or (MAIN, SUB)), network, client, calls)
        scrubber.add(gateway.token)
        runner = web.AppRunner(
            gateway.application(), access_log=None, shutdown_timeout=1, handler_cancellation=True
        )
        await runner.setup()
        listener = socket.create_server(("127.0.0.1", 0))
        await web.SockSite(runner, listener).start()
        try:
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            yield Setup(url, gateway.token, calls, tmp_path / "calls", upstream, session)
        finally:
            await runner.cleanup()


def completion(**fields: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": "42"}
    return {
        "id": "c",
        "object": "chat.completion",
        "model": "gpt-x-2026-03-01",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {
            "prompt_tokens": 100,
            "completion_tokens": 20,
            "prompt_tokens_details": {"cached_tokens": 64},
            "completion_tokens_details": {"reasoning_tokens": 8},
        },
        **fields,
    }


def answering(status: int, body: Any, **headers: str) -> Provider:
    async def provider(request: web.Request, sent: dict[str, Any]) -> web.StreamResponse:
        return web.json_response(body, status=status, headers=headers)

    return provider


def streaming(*events: str, cut: bool = False, between: float = 0) -> Provider:
    async def provider(request: web.Request, sent: dict[str, Any]) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for event in events:
            await response.write(event.encode())
            await asyncio.sleep(between)
        if cut:
            assert request.transport is not None
            request.transport.abort()
        return response

    return provider


CHUNKS = (
    'data: {"model":"gpt-x","choices":[{"index":0,"delta":{"role":"assistant","content":"4"}}]}\n\n',
    'data: {"model":"gpt-x","choices":[{"index":0,"delta":{"content":"2"},"finish_reason":"stop"}]}\n\n',
)
USAGE = (
    'data: {"model":"gpt-x","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2,'
    '"prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":{"reasoning_tokens":0}}}\n\n'
)
DONE = "data: [DONE]\n\n"


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


async def test_stream_is_passed_on_as_it_comes_and_usage_is_asked_for(tmp_path: Path) -> None:
    async with gateway_for(tmp_path, streaming(*CHUNKS, USAGE, DONE)) as setup:
        async with setup.post("/m/0/v1/chat/completions", {**QUESTION, "stream": True}) as answer:
            received = (await answer.read()).decode()
        (record,) = setup.records

    # The agent did not ask for usage, so it does not see the event that carries it.
    assert received == "".join([*CHUNKS, DONE])
    assert setup.upstream.calls[0][1]["stream_options"] == {"include_usage": True}
    assert record.streamed
    assert record.tokens == TokenCounts(input=9, cache_read=0, reasoning=0, output=2)
    assert record.response["choices"][0]["message"]["content"] == "42"
    assert record.stop_reason == "stop"


async def test_agent_that_asked_for_usage_gets_it(tmp_path: Path) -> None:
    body = {**QUESTION, "stream": True, "stream_options": {"include_usage": True}}
    async with gateway_for(tmp_path, streaming(*CHUNKS, USAGE, DONE)) as setup:
        answer = await setup.post("/m/0/v1/chat/completions", body)
        assert (await answer.read()).decode() == "".join([*CHUNKS, USAGE, DONE])


@pytest.mark.parametrize("cut", [True, False], ids=["connection lost", "no end mark"])
async def test_stream_that_breaks_off_fails_visibly(tmp_path: Path, cut: bool) -> None:
    async with gateway_for(tmp_path, streaming(*CHUNKS, cut=cut)) as setup:
        async with setup.post("/m/0/v1/chat/completions", {**QUESTION, "stream": True}) as answer:
            with pytest.raises(aiohttp.ClientPayloadError):
                await answer.read()
        await _until(lambda: setup.calls.summaries != [])
        (record,) = setup.records

    assert record.error is not None
    assert "cut short" in record.error
    assert record.tokens.output is None
    assert record.response["choices"][0]["message"]["content"] == "42"
    summary = setup.calls.summaries[0]
    assert (summary.answered, summary.fault) == (False, OutcomeClass.PROVIDER_RATE_LIMITED)


async def test_agent_that_leaves_in_the_middle_is_recorded_without_blame(tmp_path: Path) -> None:
    many = (CHUNKS[0],) * 400
    async with gateway_for(tmp_path, streaming(*many, DONE, between=0.01)) as setup:
        async with setup.post("/m/0/v1/chat/completions", {**QUESTION, "stream": True}) as answer:
            await answer.content.readany()
        await _until(lambda: setup.calls.summaries != [])
        (record,) = setup.records

    assert record.error is not None
    assert record.error.startswith("the agent left before")
    assert setup.calls.summaries[0].fault is None


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


async def test_deeply_nested_body_is_refused(tmp_path: Path) -> None:
    nested = b'{"model":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    async with gateway_for(tmp_path, answering(200, completion())) as setup:
        headers = {"Authorization": f"Bearer {setup.token}"}
        url = f"{setup.url}/m/0/v1/chat/completions"
        async with setup.session.post(url, data=nested, headers=headers) as answer:
            assert answer.status == 400


ANSWER = {
    "id": "m",
    "type": "message",
    "model": "claude-x-20260301",
    "content": [{"type": "text", "text": "42"}],
    "stop_reason": "end_turn",
    "usage": {
        "input_tokens": 10,
        "cache_read_input_tokens": 100,
        "cache_creation_input_tokens": 30,
        "cache_creation": {"ephemeral_5m_input_tokens": 20, "ephemeral_1h_input_tokens": 10},
        "output_tokens": 7,
    },
}
ANTHROPIC_TOKENS = TokenCounts(input=140, cache_read=100, cache_write_5m=20, cache_write_1h=10, output=7)
ASK = {
    "model": "claude-x",
    "max_tokens": 99,
    "temperature": 1,
    "messages": [{"role": "user", "content": "?"}],
}


async def test_anthropic_message(tmp_path: Path) -> None:
    async with gateway_for(tmp_path, answering(200, ANSWER), CLAUDE) as setup:
        async with setup.post("/m/0/v1/messages", ASK, **{"x-api-key": setup.token}) as answer:
            assert await answer.json() == ANSWER
        (record,) = setup.records

    assert setup.upstream.calls[0][0] == "/v1/models/0/messages"
    assert record.tokens == ANTHROPIC_TOKENS
    assert record.undeclared == []
    assert record.stop_reason == "end_turn"


def _anthropic_events(stop: str = "end_turn") -> list[str]:
    usage = {key: value for key, value in ANSWER["usage"].items() if key != "output_tokens"}  # type: ignore[attr-defined]
    start = {"model": "claude-x-20260301", "content": [], "usage": {**usage, "output_tokens": 1}}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": start},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "4"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "2"}},
        {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 7}},
        {"type": "message_stop"},
    ]
    return [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events]


async def test_anthropic_stream(tmp_path: Path) -> None:
    events = _anthropic_events()
    async with gateway_for(tmp_path, streaming(*events), CLAUDE) as setup:
        async with setup.post("/m/0/v1/messages", ASK | {"stream": True}) as answer:
            assert (await answer.read()).decode() == "".join(events)
        (record,) = setup.records

    assert record.tokens == ANTHROPIC_TOKENS
    assert record.response["content"] == [{"type": "text", "text": "42"}]


async def test_anthropic_stream_cut_before_its_end_has_no_output_count(tmp_path: Path) -> None:
    async with gateway_for(tmp_path, streaming(*_anthropic_events()[:4], cut=True), CLAUDE) as setup:
        async with setup.post("/m/0/v1/messages", ASK | {"stream": True}) as answer:
            with pytest.raises(aiohttp.ClientPayloadError):
                await answer.read()
        await _until(lambda: setup.calls.summaries != [])
        (record,) = setup.records

    assert record.tokens == ANTHROPIC_TOKENS.model_copy(update={"output": None})


async def test_error_inside_a_stream(tmp_path: Path) -> None:
    error = (
        'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n\n'
    )
    async with gateway_for(tmp_path, streaming(_anthropic_events()[0], error), CLAUDE) as setup:
        answer = await setup.post("/m/0/v1/messages", ASK | {"stream": True})
        assert error in (await answer.read()).decode()
    assert setup.calls.summaries[0].fault is OutcomeClass.PROVIDER_RATE_LIMITED


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


async def test_call_that_the_agent_gives_up_is_ended_and_nobody_is_blamed(tmp_path: Path) -> None:
    ended = asyncio.Event()

    async def thinking(request: web.Request, sent: dict[str, Any]) -> web.StreamResponse:
        try:
            await asyncio.sleep(600)
        finally:
            ended.set()
        raise AssertionError

    async with gateway_for(tmp_path, thinking) as setup:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await setup.post("/m/0/v1/chat/completions", QUESTION)
        await _until(lambda: setup.calls.summaries != [])
        await ended.wait()
        (record,) = setup.records

    assert record.error == "the agent left before the answer ended"
    assert setup.calls.summaries[0].fault is None


async def test_counting_tokens_is_no_model_call(tmp_path: Path) -> None:
    async with gateway_for(tmp_path, answering(200, {"input_tokens": 4}), CLAUDE) as setup:
        async with setup.post("/m/0/v1/messages/count_tokens", ASK) as answer:
            assert answer.status == 200
        assert [record.path for record in setup.records] == ["messages/count_tokens"]
    assert setup.calls.summaries == []


async def _until(condition: Any) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - the server records after the client has gone
            await asyncio.sleep(0.01)
