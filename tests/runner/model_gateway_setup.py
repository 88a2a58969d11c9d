"""A running model gateway, and providers that answer as the test says."""

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from assay.api.evidence import CallRecord, TokenCounts
from assay.api.ledgerfile import NetworkMode
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


def anthropic_events(stop: str = "end_turn") -> list[str]:
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


async def until(condition: Any) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - the server records after the client has gone
            await asyncio.sleep(0.01)
