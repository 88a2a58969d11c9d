"""The Anthropic messages protocol: reading requests, writing answers and streams."""

from collections.abc import Iterator, Mapping
from typing import Any

from scripted_model.answer import Answer, BadRequest
from scripted_model.openai_chat import event, identifier, pieces, read_messages
from scripted_model.scripts import Message

PATH = "/v1/messages"


def conversation_of(body: Mapping[str, Any]) -> list[Message]:
    """The conversation in a request, the system text first; BadRequest names the field that is wrong."""
    if not isinstance(body.get("max_tokens"), int):
        raise BadRequest("max_tokens: must be an integer")
    messages = read_messages(body.get("messages"))
    system = body.get("system")
    if not system:
        return messages
    return [*read_messages([{"role": "system", "content": system}]), *messages]


def wants_stream(body: Mapping[str, Any]) -> bool:
    """Whether the request asks for server-sent events."""
    return body.get("stream") is True


def completion(answer: Answer) -> dict[str, Any]:
    """The answer as one object."""
    content = [] if answer.refusal else [{"type": "text", "text": answer.text}]
    return {**_head(answer), "content": content, "stop_reason": _stop_reason(answer), "usage": _usage(answer)}


def stream(answer: Answer, body: Mapping[str, Any]) -> Iterator[bytes]:
    """The answer as server-sent events."""
    usage = _usage(answer)
    opening = {**_head(answer), "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
    yield event({"type": "message_start", "message": opening}, "message_start")
    if not answer.refusal:
        block = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
        yield event(block, "content_block_start")
        for piece in pieces(answer.text):
            delta = {"type": "text_delta", "text": piece}
            yield event({"type": "content_block_delta", "index": 0, "delta": delta}, "content_block_delta")
        yield event({"type": "content_block_stop", "index": 0}, "content_block_stop")
    closing = {
        "type": "message_delta",
        "delta": {"stop_reason": _stop_reason(answer), "stop_sequence": None},
        "usage": {"output_tokens": usage["output_tokens"]},
    }
    yield event(closing, "message_delta")
    yield event({"type": "message_stop"}, "message_stop")


def error(status: int, code: str, message: str) -> dict[str, Any]:
    """An error as this protocol words it."""
    kinds = {
        400: "invalid_request_error",
        401: "authentication_error",
        402: "billing_error",
        403: "permission_error",
        404: "not_found_error",
        429: "rate_limit_error",
        503: "overloaded_error",
    }
    return {"type": "error", "error": {"type": kinds.get(status, "api_error"), "message": message}}


def _head(answer: Answer) -> dict[str, Any]:
    return {
        "id": identifier(answer, "msg_"),
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "stop_sequence": None,
    }


def _stop_reason(answer: Answer) -> str:
    return "refusal" if answer.refusal else "end_turn"


def _usage(answer: Answer) -> dict[str, Any]:
    usage = answer.usage
    return {
        "input_tokens": usage.prompt - usage.cache_read - usage.cache_write,
        "cache_read_input_tokens": usage.cache_read,
        "cache_creation_input_tokens": usage.cache_write,
        "cache_creation": {"ephemeral_5m_input_tokens": usage.cache_write, "ephemeral_1h_input_tokens": 0},
        "output_tokens": usage.completion,
    }
