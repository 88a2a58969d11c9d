"""OpenAI's chat completions, and the many servers that speak them."""

from typing import Any

from assay.api.evidence import TokenCounts
from assay.runner.model_gateway.answers import Answer, child, count, text
from assay.runner.model_gateway.sse import event_data, event_json

_CLIENT_TOOLS = frozenset({"function", "custom"})
_HOSTED_FIELDS = ("web_search_options", "search_parameters", "plugins", "mcp_servers")


class OpenAIChat:
    """Dialect of `chat/completions`."""

    content_fields = frozenset(
        {"messages", "tools", "functions", "model", "stream", "stream_options", "user", "metadata", "store"}
    )

    def read(self, response: dict[str, Any], request: dict[str, Any]) -> Answer:
        """What an answer, whole or put together from a stream, says about itself."""
        usage = child(response, "usage")
        choices = response.get("choices")
        first = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
        stop = text(first.get("finish_reason"))
        refusal = "finish_reason content_filter" if stop == "content_filter" else None
        if text(child(first, "message").get("refusal")):
            refusal = "message.refusal"
        return Answer(text(response.get("model")), _tokens(usage), stop, refusal)

    def streamed(self) -> "StreamedCompletion":
        return StreamedCompletion()

    def hosted_tools(self, request: dict[str, Any]) -> list[str]:
        """Tools that the provider would run itself. A kind that is not known as the client's own counts."""
        found = [name for name in _HOSTED_FIELDS if request.get(name)]
        for tool in request.get("tools") or []:
            kind = tool.get("type") if isinstance(tool, dict) else None
            if kind not in _CLIENT_TOOLS:
                found.append(str(kind)[:100])
        model = str(request.get("model", ""))
        if "-search-preview" in model or "-search-api" in model or model.endswith(":online"):
            found.append(f"model {model[:100]}")
        return found

    def forwarded(self, request: dict[str, Any]) -> dict[str, Any]:
        """The request as the provider gets it: a stream must end with its usage."""
        if not request.get("stream"):
            return request
        return request | {"stream_options": child(request, "stream_options") | {"include_usage": True}}

    def hides(self, event: bytes, request: dict[str, Any]) -> bool:
        """Whether this event is only there because usage was asked for on the agent's behalf."""
        if child(request, "stream_options").get("include_usage"):
            return False
        data = event_json(event)
        return data is not None and data.get("choices") == [] and isinstance(data.get("usage"), dict)

    def error_body(self, code: str, message: str) -> dict[str, Any]:
        return {"error": {"message": message, "type": "assay_error", "param": None, "code": code}}


def _tokens(usage: dict[str, Any]) -> TokenCounts:
    cached = child(usage, "prompt_tokens_details")
    written = count(cached.get("cache_write_tokens", cached.get("cache_creation_tokens")))
    return TokenCounts(
        input=count(usage.get("prompt_tokens")),
        cache_read=count(cached.get("cached_tokens")),
        cache_write_5m=written,
        reasoning=count(child(usage, "completion_tokens_details").get("reasoning_tokens")),
        output=count(usage.get("completion_tokens")),
    )


class StreamedCompletion:
    """Merges `chat.completion.chunk` events into one completion."""

    def __init__(self) -> None:
        self.complete = False
        self.error: dict[str, Any] | None = None
        self._top: dict[str, Any] = {}
        self._choices: dict[int, dict[str, Any]] = {}

    def feed(self, event: bytes) -> None:
        if event_data(event).strip() == "[DONE]":
            self.complete = True
            return
        chunk = event_json(event)
        if chunk is None:
            return
        if isinstance(chunk.get("error"), dict):
            self.error = chunk["error"]
        for key, value in chunk.items():
            if key not in ("choices", "error") and value is not None:
                self._top[key] = value
        for choice in chunk.get("choices") or []:
            if isinstance(choice, dict):
                self._merge(choice)

    def _merge(self, choice: dict[str, Any]) -> None:
        index = choice.get("index") if isinstance(choice.get("index"), int) else 0
        kept = self._choices.setdefault(
            index or 0, {"index": index or 0, "message": {}, "finish_reason": None}
        )
        _merge_delta(kept["message"], child(choice, "delta"))
        if choice.get("finish_reason") is not None:
            kept["finish_reason"] = choice["finish_reason"]

    def response(self) -> dict[str, Any]:
        choices = [self._choices[index] for index in sorted(self._choices)]
        return {**self._top, "object": "chat.completion", "choices": choices}


def _merge_delta(message: dict[str, Any], delta: dict[str, Any]) -> None:
    for key, value in delta.items():
        if key == "tool_calls" and isinstance(value, list):
            _merge_tool_calls(message.setdefault("tool_calls", []), value)
        elif key != "role" and isinstance(value, str | list) and type(message.get(key)) is type(value):
            message[key] += value
        elif value is not None:
            message[key] = value


def _merge_tool_calls(kept: list[dict[str, Any]], deltas: list[Any]) -> None:
    for delta in deltas:
        if not isinstance(delta, dict):
            continue
        known = next((call for call in kept if call.get("index") == delta.get("index")), None)
        if known is None:
            kept.append({**delta, "function": dict(child(delta, "function"))})
            continue
        function = child(delta, "function")
        for key in ("name", "arguments"):
            if isinstance(function.get(key), str):
                known["function"][key] = known["function"].get(key, "") + function[key]
