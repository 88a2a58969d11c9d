"""Streamed answers through the model gateway: whole, cut, or given up."""

import asyncio
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from assay.api.evidence import TokenCounts
from assay.api.outcome import OutcomeClass
from tests.runner.model_gateway_setup import (
    ANTHROPIC_TOKENS,
    ASK,
    CHUNKS,
    CLAUDE,
    DONE,
    QUESTION,
    USAGE,
    anthropic_events,
    gateway_for,
    streaming,
    until,
)


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
        await until(lambda: setup.calls.summaries != [])
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
        await until(lambda: setup.calls.summaries != [])
        (record,) = setup.records

    assert record.error is not None
    assert record.error.startswith("the agent left before")
    assert setup.calls.summaries[0].fault is None


async def test_anthropic_stream(tmp_path: Path) -> None:
    events = anthropic_events()
    async with gateway_for(tmp_path, streaming(*events), CLAUDE) as setup:
        async with setup.post("/m/0/v1/messages", ASK | {"stream": True}) as answer:
            assert (await answer.read()).decode() == "".join(events)
        (record,) = setup.records

    assert record.tokens == ANTHROPIC_TOKENS
    assert record.response["content"] == [{"type": "text", "text": "42"}]


async def test_anthropic_stream_cut_before_its_end_has_no_output_count(tmp_path: Path) -> None:
    async with gateway_for(tmp_path, streaming(*anthropic_events()[:4], cut=True), CLAUDE) as setup:
        async with setup.post("/m/0/v1/messages", ASK | {"stream": True}) as answer:
            with pytest.raises(aiohttp.ClientPayloadError):
                await answer.read()
        await until(lambda: setup.calls.summaries != [])
        (record,) = setup.records

    assert record.tokens == ANTHROPIC_TOKENS.model_copy(update={"output": None})


async def test_error_inside_a_stream(tmp_path: Path) -> None:
    error = (
        'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n\n'
    )
    async with gateway_for(tmp_path, streaming(anthropic_events()[0], error), CLAUDE) as setup:
        answer = await setup.post("/m/0/v1/messages", ASK | {"stream": True})
        assert error in (await answer.read()).decode()
    assert setup.calls.summaries[0].fault is OutcomeClass.PROVIDER_RATE_LIMITED


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
        await until(lambda: setup.calls.summaries != [])
        await ended.wait()
        (record,) = setup.records

    assert record.error == "the agent left before the answer ended"
    assert setup.calls.summaries[0].fault is None
