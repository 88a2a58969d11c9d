"""The scripted model server over HTTP, and what terminus-2's own parsers make of its answers."""

import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from email.message import Message
from http.client import IncompleteRead
from pathlib import Path
from typing import Any

import openai
import pytest
from harbor.agents import terminus_2
from harbor.agents.terminus_2.terminus_json_plain_parser import TerminusJSONPlainParser
from harbor.agents.terminus_2.terminus_xml_plain_parser import TerminusXMLPlainParser

from images.catalogue import ROOT
from tests.examples.test_tasks import BuiltImage, Work, reward, step_rewards
from tests.images.container import Container

KEY = "sk-scripted-test"
SOLVER = "scripted/solver"
TEMPLATES = Path(terminus_2.__file__).parent / "templates"
PARSERS: dict[str, Any] = {
    "terminus-json-plain.txt": TerminusJSONPlainParser,
    "terminus-xml-plain.txt": TerminusXMLPlainParser,
}
HELLO = [{"role": "user", "content": "hello there"}]


@dataclass(frozen=True)
class Reply:
    """Status, headers and JSON of an answer."""

    status: int
    headers: "Message[str, str]"
    body: Any


class Client:
    """Sends raw requests to the server."""

    def __init__(self, url: str) -> None:
        self.url = url

    def open(self, path: str, body: object, headers: dict[str, str] | None = None) -> Any:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        sent = {"Content-Type": "application/json", **(headers or {"Authorization": f"Bearer {KEY}"})}
        return urllib.request.urlopen(
            urllib.request.Request(self.url + path, data=data, headers=sent), timeout=20
        )

    def post(self, path: str, body: object, headers: dict[str, str] | None = None) -> Reply:
        try:
            with self.open(path, body, headers) as answer:
                return Reply(answer.status, answer.headers, json.load(answer))
        except urllib.error.HTTPError as error:
            with error:
                return Reply(error.code, error.headers, json.load(error))

    def chat(self, model: str, messages: object = None, **fields: object) -> Reply:
        return self.post("/v1/chat/completions", {"model": model, "messages": messages or HELLO, **fields})


@pytest.fixture(scope="module")
def server() -> Iterator[Client]:
    """A running server on a free port, ended by SIGTERM."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "examples/model-server"),
        "SCRIPTED_MODEL_API_KEY": KEY,
        "SCRIPTED_MODEL_ADDRESS": "127.0.0.1:0",
        "PYTHONUNBUFFERED": "1",
    }
    command = [sys.executable, "-m", "scripted_model"]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        started = re.search(r"serving on (\S+)", process.stdout.readline())
        assert started is not None
        yield Client(f"http://{started[1]}")
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0


def test_same_conversation_gets_the_same_answer(server: Client) -> None:
    first, second = (server.chat(SOLVER) for _ in range(2))
    assert first.status == 200
    assert first.body == second.body


def test_usage_counts_what_was_cached_and_thought(server: Client) -> None:
    opening = {"role": "user", "content": "word " * 200}
    first = server.chat(SOLVER, [opening]).body
    usage = first["usage"]
    assert usage["prompt_tokens"] == 204
    assert usage["prompt_tokens_details"]["cached_tokens"] == 0
    assert 0 < usage["completion_tokens_details"]["reasoning_tokens"] < usage["completion_tokens"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    answer = {"role": "assistant", "content": first["choices"][0]["message"]["content"]}
    following = server.chat(SOLVER, [opening, answer, {"role": "user", "content": "go on"}]).body["usage"]
    assert following["prompt_tokens_details"]["cached_tokens"] == 192


def test_openai_client_reads_answers_and_streams(server: Client) -> None:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key=KEY, max_retries=0) as client:
        messages: Any = HELLO
        whole = client.chat.completions.create(model=SOLVER, messages=messages)
        options: Any = {"include_usage": True}
        chunks = list(
            client.chat.completions.create(
                model=SOLVER, messages=messages, stream=True, stream_options=options
            )
        )
        assert SOLVER in [model.id for model in client.models.list()]
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == whole.choices[0].message.content
    assert chunks[-1].usage == whole.usage
    assert [chunk.usage for chunk in chunks[:-1]] == [None] * (len(chunks) - 1)


def test_anthropic_messages_agree_with_the_chat_protocol(server: Client) -> None:
    body = {"model": SOLVER, "max_tokens": 1000, "messages": HELLO}
    message = server.post("/v1/messages", body, {"x-api-key": KEY}).body
    chat = server.chat(SOLVER).body
    assert message["content"] == [{"type": "text", "text": chat["choices"][0]["message"]["content"]}]
    assert message["stop_reason"] == "end_turn"
    usage = message["usage"]
    counted = usage["input_tokens"] + usage["cache_read_input_tokens"] + usage["cache_creation_input_tokens"]
    assert counted == chat["usage"]["prompt_tokens"]

    with server.open("/v1/messages", {**body, "stream": True}, {"x-api-key": KEY}) as stream:
        events = [json.loads(line[5:]) for line in stream if line.startswith(b"data:")]
    assert [event["type"] for event in events][:2] == ["message_start", "content_block_start"]
    assert events[-1] == {"type": "message_stop"}
    text = "".join(event["delta"]["text"] for event in events if event["type"] == "content_block_delta")
    assert text == message["content"][0]["text"]
    assert events[-2]["usage"]["output_tokens"] == usage["output_tokens"]


@pytest.mark.parametrize("headers", [{"Authorization": "Bearer sk-other"}, {"x-api-key": ""}, {"X-None": ""}])
def test_callers_without_the_key_are_refused(server: Client, headers: dict[str, str]) -> None:
    reply = server.post("/v1/chat/completions", {"model": SOLVER, "messages": HELLO}, headers)
    assert reply.status == 401
    assert reply.body["error"]["code"] == "invalid_api_key"


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (b"{", 400, "no JSON"),
        ([], 400, "must be a JSON object"),
        ({"model": SOLVER}, 400, "messages: must be a list"),
        ({"model": SOLVER, "messages": [{"content": "x"}]}, 400, "messages[0].role"),
        ({"model": SOLVER, "messages": [{"role": "user", "content": 5}]}, 400, "messages[0].content"),
        ({"model": "gpt-x", "messages": HELLO}, 404, "no model 'gpt-x'"),
    ],
)
def test_bad_requests_name_what_is_wrong(server: Client, body: object, status: int, message: str) -> None:
    reply = server.post("/v1/chat/completions", body)
    assert reply.status == status
    assert message in reply.body["error"]["message"]


@pytest.mark.parametrize(
    ("model", "status", "kind"),
    [
        ("scripted/ratelimited", 429, "rate_limit_error"),
        ("scripted/overloaded", 503, "overloaded_error"),
        ("scripted/nofunds", 402, "billing_error"),
        ("scripted/forbidden", 403, "permission_error"),
    ],
)
def test_models_that_fail_do_so_in_both_protocols(server: Client, model: str, status: int, kind: str) -> None:
    assert server.chat(model).status == status
    reply = server.post("/v1/messages", {"model": model, "max_tokens": 9, "messages": HELLO})
    assert (reply.status, reply.body["error"]["type"]) == (status, kind)


def test_rate_limit_names_the_wait_and_ends_where_asked_to(server: Client) -> None:
    assert server.chat("scripted/ratelimited").headers["Retry-After"] == "1"
    once = [
        server.chat("scripted/ratelimited-once", [{"role": "user", "content": "once"}]).status for _ in "ab"
    ]
    assert once == [429, 200]


@pytest.mark.parametrize(("model", "answers"), [("scripted/idle", 0), ("scripted/hasty", 1), (SOLVER, 2)])
def test_models_give_up_after_as_many_answers_as_they_have_patience(
    server: Client, model: str, answers: int
) -> None:
    conversation = [{"role": "user", "content": "# Summarise the access log"}]
    given = 0
    while not (answer := json.loads(content(server.chat(model, conversation)))).get("task_complete"):
        given += 1
        conversation += [{"role": "assistant", "content": str(answer)}, {"role": "user", "content": "$"}]
    assert given == answers


def content(reply: Reply) -> str:
    return str(reply.body["choices"][0]["message"]["content"])


def test_refusal_and_fallback_show_on_the_wire(server: Client) -> None:
    refused = server.chat("scripted/refusing").body["choices"][0]
    assert refused["message"]["content"] is None
    assert refused["message"]["refusal"]
    body = {"model": "scripted/refusing", "max_tokens": 9, "messages": HELLO}
    assert server.post("/v1/messages", body).body["stop_reason"] == "refusal"
    assert server.chat("scripted/fallback").body["model"] == "scripted/smaller"


def test_cut_stream_ends_without_its_end(server: Client) -> None:
    body = {"model": "scripted/cut", "messages": HELLO, "stream": True}
    with server.open("/v1/chat/completions", body) as stream, pytest.raises(IncompleteRead) as cut:
        stream.read()
    assert b"[DONE]" not in cut.value.partial


def converse(server: Client, instruction: str, running: Container, template: str) -> int:
    """Plays terminus-2: sends the instruction, types what comes back, until the task is complete twice."""
    text = (TEMPLATES / template).read_text().format(instruction=instruction, terminal_state="$")
    parser = PARSERS[template]()
    messages = [{"role": "user", "content": text}]
    completed = 0
    for turn in range(1, 11):
        reply = server.chat(SOLVER, messages).body["choices"][0]["message"]["content"]
        parsed = parser.parse_response(reply)
        assert (parsed.error, parsed.warning) == ("", "")
        typed = "".join(command.keystrokes for command in parsed.commands)
        done = running.run("bash", "-c", typed)
        completed = completed + 1 if parsed.is_task_complete else 0
        if completed == 2:
            return turn
        seen = f"{done.stdout}{done.stderr}"
        messages += [{"role": "assistant", "content": reply}, {"role": "user", "content": seen}]
    raise AssertionError("the model never said that the task was complete")


def agent(server: Client, instruction: str, template: str = "terminus-json-plain.txt") -> Work:
    def work(running: Container) -> None:
        assert converse(server, instruction, running, template) >= 3

    return work


@pytest.mark.parametrize("template", list(PARSERS))
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("repair-span-parser", 1.0),
        ("repair-span-rounding", 0.0),
        ("count-requests", 1.0),
        ("link-duplicates", 0.0),
        ("question-full-larder", 0.0),
    ],
)
@pytest.mark.e2e
def test_scripts_solve_some_tasks_and_fail_others(
    server: Client, built_image: BuiltImage, name: str, expected: float, template: str
) -> None:
    task = ROOT / "examples/tasks" / name
    instruction = (task / "instruction.md").read_text()
    assert reward(task, agent(server, instruction, template), built_image) == expected


@pytest.mark.e2e
def test_scripts_solve_both_steps(server: Client, built_image: BuiltImage) -> None:
    task = ROOT / "examples/tasks/plan-reorders"

    def work(solution: Path) -> Work:
        return agent(server, (solution.parent / "instruction.md").read_text())

    assert step_rewards(task, work, built_image) == [1.0, 1.0]
