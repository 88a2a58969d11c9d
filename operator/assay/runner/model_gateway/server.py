"""The HTTP server that the agent takes for its model provider."""

import asyncio
import json
import logging
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import aiohttp
from aiohttp import web

from assay.api.evidence import CallRecord
from assay.api.ledgerfile import NetworkMode
from assay.api.outcome import OutcomeClass
from assay.api.tryspec import ModelTarget, ProviderAPI
from assay.runner.calls import CallSummary
from assay.runner.gateway_client import GatewayClient, GatewayError
from assay.runner.model_gateway.answers import Answer, Dialect, own_fault, provider_fault, text
from assay.runner.model_gateway.anthropic_messages import AnthropicMessages
from assay.runner.model_gateway.call_log import ANSWER_PATHS, CallLog
from assay.runner.model_gateway.declaration import is_named, target_of, undeclared
from assay.runner.model_gateway.openai_chat import OpenAIChat
from assay.runner.model_gateway.sse import EventSplitter, EventTooLarge

log = logging.getLogger(__name__)

_DIALECTS: Mapping[ProviderAPI, Dialect] = {
    "OpenAIChat": OpenAIChat(),
    "AnthropicMessages": AnthropicMessages(),
}
_COUNT_PATH = "messages/count_tokens"

# Agents give up when their clock runs out; nobody else is to blame for it.
_LEFT = "the agent left before the answer ended"
_LARGEST_REQUEST = 64 << 20
_LARGEST_ANSWER = 64 << 20
_KEPT_BODY = 8 << 20
_REQUEST_HEADERS = ("anthropic-version", "anthropic-beta", "openai-beta")
_ANSWER_HEADERS = ("retry-after", "x-request-id", "request-id", "x-assay-error", "x-should-retry")
_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=3600)
"""A model may think for long before its first byte; the agent's own clock ends it."""


@dataclass(slots=True)
class _Call:
    """One call while it happens."""

    sequence: int
    index: int
    model: ModelTarget
    path: str
    request: dict[str, Any]
    asks: bool
    """It asks for an answer, so it counts as a model call."""
    began: float = field(default_factory=time.monotonic)
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    status: int = 0
    response: Any = None
    answer: Answer = field(default_factory=Answer)
    answered: bool = False
    error: str | None = None
    fault: OutcomeClass | None = None
    blocked: list[str] = field(default_factory=list)

    @property
    def asked(self) -> str | None:
        return text(self.request.get("model"))

    @property
    def streamed(self) -> bool:
        return self.request.get("stream") is True


class ModelGateway:
    """Serves the variant's models to one try, which knows the token; forwards, meters and records."""

    def __init__(
        self, models: list[ModelTarget], network: NetworkMode, client: GatewayClient, calls: CallLog
    ) -> None:
        self.token = f"assay-try-{secrets.token_urlsafe(32)}"
        self._models = models
        self._network = network
        self._client = client
        self._calls = calls

    def application(self) -> web.Application:
        """The aiohttp application."""
        app = web.Application(client_max_size=_LARGEST_REQUEST)
        app.router.add_route("*", "/m/{index:[0-9]}/{rest:.*}", self._handle)
        return app

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        index = int(request.match_info["index"])
        if index >= len(self._models):
            return _own_error(
                _DIALECTS["OpenAIChat"], 404, "UnknownModel", f"the variant has no model {index}"
            )
        dialect = _DIALECTS[self._models[index].api]
        if not self._knows_token(request):
            return _own_error(
                dialect, 401, "InvalidTryToken", "this endpoint serves the agent of one try alone"
            )
        api = self._models[index].api
        path = request.match_info["rest"].removeprefix("v1/").strip("/")
        if request.method == "GET" and path == "models":
            return web.json_response(self._listing(api))
        if request.method != "POST" or path not in (ANSWER_PATHS[api], *_counting(api)):
            log.warning("the agent called %s %s, which is not served", request.method, path[:200])
            return _own_error(
                dialect, 404, "UnsupportedPath", f"only {ANSWER_PATHS[api]} is served here, not {path}"
            )
        try:
            body = json.loads(await request.read())
            json.dumps(body)
        except (ValueError, RecursionError):
            body = None
        if not isinstance(body, dict):
            return _own_error(dialect, 400, "InvalidRequest", "the body is not a JSON object")
        return await self._call(request, dialect, index, path, body)

    def _knows_token(self, request: web.Request) -> bool:
        given = request.headers.get("x-api-key") or request.headers.get("Authorization", "").removeprefix(
            "Bearer "
        )
        return secrets.compare_digest(given.strip().encode(), self.token.encode())

    def _listing(self, api: ProviderAPI) -> dict[str, Any]:
        names = [model.name for model in self._models if model.api == api]
        return {
            "object": "list",
            "data": [{"id": name, "object": "model", "type": "model"} for name in names],
        }

    async def _call(
        self, request: web.Request, dialect: Dialect, index: int, path: str, body: dict[str, Any]
    ) -> web.StreamResponse:
        index = target_of(self._models, index, text(body.get("model")))
        model = self._models[index]
        asks = path == ANSWER_PATHS[model.api]
        call = _Call(self._calls.next_sequence(), index, model, path, body, asks)
        try:
            if self._network is NetworkMode.NONE and (tools := dialect.hosted_tools(body)):
                return _refuse(call, dialect, tools)
            return await self._forward(request, dialect, call)
        except _AgentLeft:
            call.error = _LEFT
            return web.Response(status=499)
        except asyncio.CancelledError:
            call.error = _LEFT
            raise
        finally:
            self._record(dialect, call)

    async def _forward(self, request: web.Request, dialect: Dialect, call: _Call) -> web.StreamResponse:
        try:
            headers = self._client.headers() | _kept(request.headers, _REQUEST_HEADERS)
            headers |= {"Accept-Encoding": "identity", "Content-Type": "application/json"}
            async with self._client.session.post(
                self._client.model_url(call.index, call.path),
                data=json.dumps(dialect.forwarded(call.request)).encode(),
                headers=headers,
                timeout=_TIMEOUT,
            ) as upstream:
                call.status = upstream.status
                if upstream.status == 200 and upstream.content_type == "text/event-stream":
                    return await self._relay_stream(request, dialect, call, upstream)
                return await self._relay_body(dialect, call, upstream)
        except (aiohttp.ClientError, GatewayError, TimeoutError, ConnectionError) as error:
            if call.status:
                # The answer had begun: cut the connection, so that the agent cannot take it for a whole one.
                call.error = call.error or f"the answer was cut short: {type(error).__name__}: {error}"
                call.fault = OutcomeClass.PROVIDER_RATE_LIMITED
                if request.transport:
                    request.transport.abort()
                return _own_error(dialect, 502, "AnswerCut", "the answer was cut short")
            call.error = f"GatewayUnreachable: {error}"
            call.fault = OutcomeClass.INFRA_START
            return _own_error(
                dialect, 502, "GatewayUnreachable", "the gateway in the cluster cannot be reached"
            )

    async def _relay_body(
        self, dialect: Dialect, call: _Call, upstream: aiohttp.ClientResponse
    ) -> web.StreamResponse:
        body = b""
        async for chunk in upstream.content.iter_any():
            body += chunk
            if len(body) > _LARGEST_ANSWER:
                raise aiohttp.ClientPayloadError(f"an answer has more than {_LARGEST_ANSWER} bytes")
        call.response = _readable(body)
        if upstream.status < 300 and isinstance(call.response, dict):
            call.answered = call.asks
            call.answer = dialect.read(call.response, call.request)
        elif upstream.status >= 300:
            _explain(call, body.decode(errors="replace"), upstream.headers.get("X-Assay-Error"))
        return web.Response(
            status=upstream.status,
            body=body,
            headers=_kept(upstream.headers, ("content-type", *_ANSWER_HEADERS)),
        )

    async def _relay_stream(
        self, request: web.Request, dialect: Dialect, call: _Call, upstream: aiohttp.ClientResponse
    ) -> web.StreamResponse:
        answer = web.StreamResponse(headers=_kept(upstream.headers, _ANSWER_HEADERS))
        answer.content_type = "text/event-stream"
        await answer.prepare(request)
        events, streamed = EventSplitter(), dialect.streamed()
        try:
            async for chunk in upstream.content.iter_any():
                for event in events.feed(chunk):
                    streamed.feed(event)
                    if not dialect.hides(event, call.request):
                        await _write(answer, event)
            if events.rest.strip():
                streamed.feed(events.rest)
                await _write(answer, events.rest)
        except EventTooLarge as error:
            raise aiohttp.ClientPayloadError(str(error)) from error
        finally:
            call.response = streamed.response()
            call.answer = dialect.read(call.response, call.request)
            call.answered = streamed.complete and streamed.error is None
        if streamed.error is not None:
            _explain(call, json.dumps(streamed.error), None)
        elif not streamed.complete:
            raise aiohttp.ClientPayloadError("the stream ended without the protocol's end mark")
        await answer.write_eof()
        return answer

    def _record(self, dialect: Dialect, call: _Call) -> None:
        sent = _encodable(call.request)
        settings = {
            key: value
            for key, value in sent.items()
            if key not in dialect.content_fields and value is not None
        }
        asked = text(sent.get("model"))
        used = undeclared(call.model, asked, call.answer.model, settings)
        record = CallRecord(
            sequence=call.sequence,
            role=call.model.role,
            api=call.model.api,
            path=call.path,
            started_at=call.started_at,
            latency_seconds=round(time.monotonic() - call.began, 4),
            streamed=call.streamed,
            status=call.status,
            model_asked=asked,
            model_answered=call.answer.model,
            settings=settings,
            tokens=call.answer.tokens,
            stop_reason=call.answer.stop_reason,
            refusal=call.answer.refusal,
            undeclared=used,
            blocked_tools=call.blocked,
            error=call.error[:2000] if call.error else None,
            request=_bounded(sent),
            response=_bounded(_encodable(call.response)),
        )
        self._calls.add(record, _summary(call) if call.asks else None)


class _AgentLeft(Exception):
    """The agent closed its connection."""


async def _write(answer: web.StreamResponse, data: bytes) -> None:
    # Told apart from the provider's connection, whose loss is the same exception.
    try:
        await answer.write(data)
    except ConnectionError as error:
        raise _AgentLeft from error


def _summary(call: _Call) -> CallSummary:
    return CallSummary(
        status=call.status,
        answered=call.answered,
        model=call.answer.model or call.asked,
        fault=call.fault,
        refusal=call.answer.refusal,
        refused_by_assay=bool(call.blocked),
        message=(call.error or "")[:300],
    )


def _counting(api: ProviderAPI) -> tuple[str, ...]:
    return (_COUNT_PATH,) if api == "AnthropicMessages" else ()


def _refuse(call: _Call, dialect: Dialect, tools: list[str]) -> web.Response:
    call.status, call.blocked = 403, tools
    call.error = f"HostedToolRefused: {', '.join(tools)}"
    return _own_error(
        dialect,
        403,
        "HostedToolRefused",
        f"this task has no network, so tools that the provider runs are refused: {', '.join(tools)}",
    )


def _explain(call: _Call, body: str, own_code: str | None) -> None:
    """Say why there is no answer, from the error that came instead."""
    prefix = f"{own_code}: " if own_code else ""
    call.error = prefix + (body[:1000] or f"HTTP {call.status}")
    declared = call.asked is None or is_named(call.model, call.asked)
    if own_code:
        call.fault = own_fault(own_code)
    else:
        # An error inside a stream that began well is the provider's, whatever status it began with.
        status = call.status if call.status >= 300 else 529
        call.fault = provider_fault(status, body, declared)


def _kept(headers: Mapping[str, str], names: tuple[str, ...]) -> dict[str, str]:
    return {name: headers[name] for name in names if name in headers}


def _readable(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return body[:_KEPT_BODY].decode(errors="replace")


def _encodable(body: Any) -> Any:
    """The same value; half of a surrogate pair, which JSON can escape and UTF-8 cannot hold, becomes `?`."""
    written = json.dumps(body, ensure_ascii=False)
    try:
        written.encode()
    except UnicodeEncodeError:
        return json.loads(written.encode("utf-8", "replace"))
    return body


def _bounded(body: Any) -> Any:
    size = len(json.dumps(body, ensure_ascii=False)) if body is not None else 0
    return body if size <= _KEPT_BODY else f"[a body of {size} characters was left out]"


def _own_error(dialect: Dialect, status: int, code: str, message: str) -> web.Response:
    return web.json_response(
        dialect.error_body(code, message), status=status, headers={"X-Assay-Error": code}
    )
