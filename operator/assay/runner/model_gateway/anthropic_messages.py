"""Anthropic's messages."""

import json
from typing import Any

from assay.api.evidence import TokenCounts
from assay.runner.model_gateway.answers import Answer, child, count, text
from assay.runner.model_gateway.sse import event_json

_CLIENT_TOOL_PREFIXES = ("bash_", "text_editor_", "computer_", "memory_", "tool_search_tool_")
_HOSTED_FIELDS = ("mcp_servers", "container")


class AnthropicMessages:
    """Dialect of `v1/messages`."""

    content_fields = frozenset({"messages", "system", "tools", "model", "stream", "metadata"})

    def read(self, response: dict[str, Any], request: dict[str, Any]) -> Answer:
        """What an answer, whole or put together from a stream, says about itself."""
        stop = text(response.get("stop_reason"))
        refusal = "stop_reason refusal" if stop == "refusal" else None
        return Answer(text(response.get("model")), _tokens(child(response, "usage"), request), stop, refusal)

    def streamed(self) -> "StreamedMessage":
        return StreamedMessage()

    def hosted_tools(self, request: dict[str, Any]) -> list[str]:
        """Tools that the provider would run itself. A kind that is not known as the client's own counts."""
        found = [name for name in _HOSTED_FIELDS if request.get(name)]
        for tool in request.get("tools") or []:
            kind = tool.get("type") if isinstance(tool, dict) else "?"
            if kind in (None, "custom") or str(kind).startswith(_CLIENT_TOOL_PREFIXES):
                continue
            found.append(str(kind)[:100])
        return found

    def forwarded(self, request: dict[str, Any]) -> dict[str, Any]:
        """The request as the provider gets it: unchanged, streams report their usage anyway."""
        return request

    def hides(self, event: bytes, request: dict[str, Any]) -> bool:
        return False

    def error_body(self, code: str, message: str) -> dict[str, Any]:
        return {"type": "error", "error": {"type": code, "message": message}}


def _tokens(usage: dict[str, Any], request: dict[str, Any]) -> TokenCounts:
    fresh, read = count(usage.get("input_tokens")), count(usage.get("cache_read_input_tokens"))
    written = count(usage.get("cache_creation_input_tokens"))
    split = child(usage, "cache_creation")
    short, long = count(split.get("ephemeral_5m_input_tokens")), count(split.get("ephemeral_1h_input_tokens"))
    if not split and written is not None and (written == 0 or '"1h"' not in json.dumps(request)):
        # Without an answer in parts: the default lifetime, unless the request asked for the longer one.
        short, long = written, 0
    parts = (fresh, read or 0, written or 0)
    return TokenCounts(
        input=None if fresh is None else sum(part for part in parts if part is not None),
        cache_read=read,
        cache_write_5m=short,
        cache_write_1h=long,
        output=count(usage.get("output_tokens")),
    )


class StreamedMessage:
    """Merges the events of a streamed message into one message."""

    def __init__(self) -> None:
        self.complete = False
        self.error: dict[str, Any] | None = None
        self._message: dict[str, Any] = {}
        self._blocks: dict[int, dict[str, Any]] = {}

    def feed(self, event: bytes) -> None:
        data = event_json(event)
        match (data or {}).get("type"):
            case "message_start":
                self._message = dict(child(data, "message"))
                # What the first event counts as output is not what the answer will have cost.
                usage = dict(child(self._message, "usage"))
                usage.pop("output_tokens", None)
                self._message["usage"] = usage
            case "content_block_start":
                self._blocks[_index(data)] = dict(child(data, "content_block"))
            case "content_block_delta":
                _merge_block(self._blocks.setdefault(_index(data), {}), child(data, "delta"))
            case "message_delta":
                self._message |= {
                    key: value for key, value in child(data, "delta").items() if value is not None
                }
                known = child(self._message, "usage")
                self._message["usage"] = known | {
                    k: v for k, v in child(data, "usage").items() if v is not None
                }
            case "message_stop":
                self.complete = True
            case "error":
                self.error = child(data, "error")

    def response(self) -> dict[str, Any]:
        return {**self._message, "content": [self._blocks[index] for index in sorted(self._blocks)]}


def _index(data: dict[str, Any] | None) -> int:
    return count((data or {}).get("index")) or 0


_DELTA_FIELDS = {
    "text": "text",
    "thinking": "thinking",
    "partial_json": "input_json",
    "signature": "signature",
}


def _merge_block(block: dict[str, Any], delta: dict[str, Any]) -> None:
    for source, target in _DELTA_FIELDS.items():
        if isinstance(delta.get(source), str):
            known = block.get(target)
            block[target] = (known if isinstance(known, str) else "") + delta[source]
    if "citation" in delta:
        block.setdefault("citations", []).append(delta["citation"])
