"""Tries of variants with a model: the wire, not the agent, says what the calls came to."""

import asyncio
import json
import shutil
from typing import Any

import pytest
from aiohttp import web

from assay.api.evidence import TokenCounts
from assay.api.outcome import OutcomeClass
from tests.runner.attempt_pod import Deadlines
from tests.runner.conftest import MakePod
from tests.runner.gateway_double import TOKEN, GatewayDouble
from tests.runner.tasks import shared_task

MODEL = {"role": "main", "name": "openai/scripted-1", "api": "OpenAIChat", "endpoint": "http://model.test/v1"}
CALLER = "tests.runner.agents:Caller"


def completion(content: str) -> dict[str, Any]:
    return {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": "scripted-1",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "stop"}
        ],
        "usage": {
            "prompt_tokens": 100,
            "completion_tokens": 20,
            "total_tokens": 120,
            "prompt_tokens_details": {"cached_tokens": 40},
            "completion_tokens_details": {"reasoning_tokens": 5},
        },
    }


async def answers_42(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
    return web.json_response(completion("42"))


async def test_agent_with_a_model_is_graded_and_metered(make_pod: MakePod, gateway: GatewayDouble) -> None:
    gateway.provider = answers_42
    async with make_pod(shared_task(), CALLER, models=[MODEL]) as pod:
        await pod.run_to_end()

    result = gateway.manifest.result
    assert (result.outcome, result.reward) == (OutcomeClass.GRADED, 1)
    assert result.model_calls == 1
    assert result.tokens == TokenCounts(input=100, cache_read=40, reasoning=5, output=20)
    (record,) = gateway.records
    assert record.model_answered == "scripted-1"
    assert TOKEN.encode() not in gateway.everything()
    assert b"assay-try-" not in gateway.everything()


async def test_provider_that_refuses(make_pod: MakePod, gateway: GatewayDouble) -> None:
    async def refuses(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        return web.json_response({"error": {"message": "no"}}, status=402)

    gateway.provider = refuses
    async with make_pod(shared_task(), CALLER, models=[MODEL]) as pod:
        await pod.run_to_end()

    assert gateway.manifest.result.outcome is OutcomeClass.PROVIDER_FUNDS
    assert "402" in gateway.manifest.result.reason


async def test_model_variant_that_never_calls(make_pod: MakePod, gateway: GatewayDouble) -> None:
    async with make_pod(shared_task(), "tests.runner.agents:Silent", models=[MODEL]) as pod:
        await pod.run_to_end()

    assert gateway.manifest.result.outcome is OutcomeClass.AGENT_NEVER_CALLED
    assert gateway.manifest.result.model_calls == 0


async def test_call_records_reach_the_evidence_while_the_agent_works(
    make_pod: MakePod, gateway: GatewayDouble
) -> None:
    gateway.provider = answers_42
    async with make_pod(shared_task(), "tests.runner.agents:PatientCaller", models=[MODEL]) as pod:
        await pod.start_runner()
        await pod.environment.start()
        await pod.until(lambda: "calls/000001.jsonl" in gateway.files)
        assert {"try-spec.json", "isolation.json"} <= set(gateway.files)
        assert gateway.manifest_bytes is None
        await pod.delete()

    assert gateway.manifest.result.outcome is OutcomeClass.DISRUPTED
    assert "calls/000001.jsonl" in {file.path for file in gateway.manifest.files}
    assert gateway.manifest.result.model_calls == 1


async def test_calls_before_a_restart_keep_their_tokens(make_pod: MakePod, gateway: GatewayDouble) -> None:
    gateway.provider = answers_42
    async with make_pod(shared_task(), "tests.runner.agents:PatientCaller", models=[MODEL]) as pod:
        await pod.start_runner()
        siblings = asyncio.create_task(pod.main_containers())
        await pod.until(
            lambda: pod.environment.process is not None and pod.environment.has("/app/answer.txt")
        )
        pod.kill_runner()
        assert pod.runner is not None
        await pod.runner.wait()
        await pod.start_runner()
        assert await siblings == [0]
        await pod.terminate()

    result = gateway.manifest.result
    assert result.outcome is OutcomeClass.RUNNER_RESTARTED
    assert result.model_calls == len(gateway.records) == 1
    assert result.tokens == TokenCounts(input=100, cache_read=40, reasoning=5, output=20)


async def test_agent_that_is_late_in_the_middle_of_a_call_is_graded(
    make_pod: MakePod, gateway: GatewayDouble
) -> None:
    """cases.md BAR 5: its clock, not the provider, ended the call."""

    async def thinks(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        await asyncio.sleep(600)
        raise AssertionError

    gateway.provider = thinks
    async with make_pod(shared_task(), CALLER, models=[MODEL], deadlines=Deadlines(agent=2)) as pod:
        await pod.run_to_end()

    result = gateway.manifest.result
    assert (result.outcome, result.reward) == (OutcomeClass.GRADED, 0)
    assert result.agent_timed_out
    assert [record.error for record in gateway.records] == ["the agent left before the answer ended"]


async def test_terminus_2_solves_the_task(make_pod: MakePod, gateway: GatewayDouble) -> None:
    """A real agent: Harbor's terminus-2, through litellm, with tmux in the container."""
    if shutil.which("tmux") is None:
        pytest.skip("the containers of this test have the machine's programs, and it has no tmux")

    async def scripted(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        first = len(gateway.calls) == 1
        commands = [{"keystrokes": "echo 42 > /app/answer.txt\n", "duration": 0.2}] if first else []
        turn = {"analysis": "a", "plan": "p", "commands": commands, "task_complete": not first}
        return web.json_response(completion(json.dumps(turn)))

    gateway.provider = scripted
    arguments = {"max_turns": 5, "record_terminal_session": False}
    fields = {"version": "2.0.0", "arguments": arguments}
    async with make_pod(shared_task(), "terminus-2", agent_fields=fields, models=[MODEL]) as pod:
        await pod.run_to_end()

    result = gateway.manifest.result
    assert (result.outcome, result.reward) == (OutcomeClass.GRADED, 1)
    assert result.model_calls == len(gateway.calls) == len(gateway.records) > 1
    assert {body["model"] for _, body, _ in gateway.calls} == {"scripted-1"}
    assert result.flags == ["PinExternal"]
    assert "trial/agent/trajectory.json" in gateway.files
