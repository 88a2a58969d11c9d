"""The OpenAI chat completions protocol: reading requests, writing answers and streams."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from scripted_model.answer import Answer, BadRequest
from scripted_model.scripts import Message

PATH = "/v1/chat/completions"
# Every answer bears this time: the same conversation gives the same bytes.
_CREATED = 1_764_460_800
_WORDS_PER_PIECE = 8


def conversation_of(body: Mapping[str, Any]) -> list[Message]:
    """The conversation in a request; BadRequest names the field that is wrong."""
    return read_messages(body.get("messages"))


def read_messages(messages: object) -> list[Message]:
    """Messages as both protocols write them: a text, or a list of parts with texts."""
    if not isinstance(messages, list) or not messages:
        raise BadRequest("messages: must be a list with at least one message")
    return [_message(index, message) for index, message in enumerate(messages)]


def _message(index: int, message: object) -> Message:
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        raise BadRequest(f"messages[{index}].role: must be a string")
    content = message.get("content")
    if content is None or isinstance(content, str):
        return Message(message["role"], content or "")
    if not isinstance(content, list):
        raise BadRequest(f"messages[{index}].content: must be a string or a list of parts")
    texts = [part.get("text", "") for part in content if isinstance(part, dict)]
    return Message(message["role"], "\n".join(text for text in texts if isinstance(text, str)))


def wants_stream(body: Mapping[str, Any]) -> bool:
    """Whether the request asks for server-sent events."""
    return body.get("stream") is True


def completion(answer: Answer) -> dict[str, Any]:
    """The answer as one object."""
    return {
        **_head(answer, "chat.completion"),
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": _content(answer), "refusal": answer.refusal},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": _usage(answer),
    }


def stream(answer: Answer, body: Mapping[str, Any]) -> Iterator[bytes]:
    """The answer as server-sent events; the last but one holds the usage where the request asks for it."""
    head = _head(answer, "chat.completion.chunk")
    key = "refusal" if answer.refusal else "content"

    def chunk(delta: Mapping[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return event({**head, "choices": [choice]})

    yield chunk({"role": "assistant", key: ""})
    for piece in pieces(answer.refusal or answer.text):
        yield chunk({key: piece})
    yield chunk({}, "stop")
    options = body.get("stream_options")
    if isinstance(options, dict) and options.get("include_usage") is True:
        yield event({**head, "choices": [], "usage": _usage(answer)})
    yield b"data: [DONE]\n\n"


def error(status: int, code: str, message: str) -> dict[str, Any]:
    """An error as this protocol words it."""
    kind = {401: "authentication_error", 429: "rate_limit_error", 503: "server_error"}.get(
        status, "invalid_request_error"
    )
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def pieces(text: str) -> Iterator[str]:
    """A text in pieces of a few words, for streams; joined they give the text."""
    words = text.split(" ")
    for start in range(0, len(words), _WORDS_PER_PIECE):
        piece = " ".join(words[start : start + _WORDS_PER_PIECE])
        yield piece if start + _WORDS_PER_PIECE >= len(words) else f"{piece} "


def event(data: Mapping[str, Any], name: str | None = None) -> bytes:
    """One server-sent event."""
    prefix = f"event: {name}\n" if name else ""
    return f"{prefix}data: {json.dumps(data, separators=(',', ':'))}\n\n".encode()


def identifier(answer: Answer, prefix: str) -> str:
    """An id that is the same for the same answer in the same conversation."""
    text = repr((answer.model, answer.text, answer.refusal, answer.usage))
    return f"{prefix}{hashlib.sha256(text.encode()).hexdigest()[:24]}"


def models(names: Sequence[str]) -> dict[str, Any]:
    """The list of models."""
    data = [{"id": name, "object": "model", "created": _CREATED, "owned_by": "scripted"} for name in names]
    return {"object": "list", "data": data}


def _head(answer: Answer, kind: str) -> dict[str, Any]:
    return {
        "id": identifier(answer, "chatcmpl-"),
        "object": kind,
        "created": _CREATED,
        "model": answer.model,
        "system_fingerprint": "fp_scripted",
    }


def _content(answer: Answer) -> str | None:
    return None if answer.refusal else answer.text


def _usage(answer: Answer) -> dict[str, Any]:
    usage = answer.usage
    return {
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.completion,
        "total_tokens": usage.prompt + usage.completion,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning, "audio_tokens": 0},
    }
