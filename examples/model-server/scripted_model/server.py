"""The HTTP server: keys, paths, errors and streams."""

import hmac
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol

from scripted_model import anthropic_messages, openai_chat, scripts
from scripted_model.answer import Answer, BadRequest, answer_to
from scripted_model.behaviours import BEHAVIOURS, Behaviour, Memory
from scripted_model.scripts import Message

_LONGEST_BODY = 64 * 1024 * 1024


class ScriptedModelServer(ThreadingHTTPServer):
    """Serves on `address`; every path but /healthz wants `api_key`."""

    daemon_threads = True
    # Agents come in bursts; the default backlog of 5 would refuse some.
    request_queue_size = 256

    def __init__(self, address: tuple[str, int], api_key: str) -> None:
        self.api_key = api_key
        self.scripts = scripts.load()
        self.memory = Memory()
        super().__init__(address, _Handler)


class _Protocol(Protocol):
    """What the modules `openai_chat` and `anthropic_messages` have in common."""

    def conversation_of(self, body: Mapping[str, Any]) -> list[Message]: ...

    def wants_stream(self, body: Mapping[str, Any]) -> bool: ...

    def completion(self, answer: Answer) -> dict[str, Any]: ...

    def stream(self, answer: Answer, body: Mapping[str, Any]) -> Iterator[bytes]: ...

    def error(self, status: int, code: str, message: str) -> dict[str, Any]: ...


_PROTOCOLS: dict[str, _Protocol] = {
    openai_chat.PATH: openai_chat,
    anthropic_messages.PATH: anthropic_messages,
}


class _Failure(Exception):
    """An answer other than 200."""

    def __init__(self, status: int, code: str, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.retry_after = retry_after


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "scripted-model"
    sys_version = ""
    server: ScriptedModelServer

    def do_GET(self) -> None:
        if self.path == "/healthz":
            self._send_json(HTTPStatus.OK, {"status": "ok"})
        elif self.path == "/v1/models":
            self._guarded(lambda: self._send_json(HTTPStatus.OK, openai_chat.models(list(BEHAVIOURS))))
        else:
            self._send_failure(
                openai_chat, _Failure(HTTPStatus.NOT_FOUND, "not_found", f"no path {self.path}")
            )

    def do_POST(self) -> None:
        path = self.path.partition("?")[0]
        # The body is read whatever the answer is: the next request follows it on this connection.
        body = self._read_body()
        if path not in _PROTOCOLS:
            self._send_failure(openai_chat, _Failure(HTTPStatus.NOT_FOUND, "not_found", f"no path {path}"))
        else:
            self._guarded(lambda: self._answer(_PROTOCOLS[path], body), _PROTOCOLS[path])

    def _guarded(self, action: Callable[[], None], protocol: _Protocol = openai_chat) -> None:
        """Runs an action for a caller with the key; failures are worded by the protocol."""
        try:
            self._check_key()
            action()
        except _Failure as failure:
            self._send_failure(protocol, failure)
        except BadRequest as error:
            self._send_failure(protocol, _Failure(HTTPStatus.BAD_REQUEST, "invalid_request", str(error)))

    def _check_key(self) -> None:
        scheme, _, bearer = self.headers.get("Authorization", "").partition(" ")
        given = bearer.strip() if scheme.lower() == "bearer" else self.headers.get("x-api-key", "")
        if not hmac.compare_digest(given.encode(), self.server.api_key.encode()):
            raise _Failure(HTTPStatus.UNAUTHORIZED, "invalid_api_key", "The API key is missing or wrong.")

    def _answer(self, protocol: _Protocol, body: bytes | None) -> None:
        request = _parse(body)
        conversation = protocol.conversation_of(request)
        model = request.get("model")
        if not isinstance(model, str) or model not in BEHAVIOURS:
            known = ", ".join(BEHAVIOURS)
            raise _Failure(HTTPStatus.NOT_FOUND, "model_not_found", f"no model {model!r}; there are {known}")
        behaviour = BEHAVIOURS[model]
        if _fails(behaviour) and (not behaviour.once or self.server.memory.is_first(model, conversation)):
            message = f"The model {model} always answers so." if not behaviour.once else "Try again."
            raise _Failure(behaviour.status, behaviour.code, message, behaviour.retry_after)
        answer = answer_to(conversation, model, behaviour, self.server.scripts)
        if protocol.wants_stream(request):
            self._send_stream(list(protocol.stream(answer, request)), behaviour)
        else:
            time.sleep(behaviour.pause)
            self._send_json(HTTPStatus.OK, protocol.completion(answer))

    def _send_stream(self, events: list[bytes], behaviour: Behaviour) -> None:
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Cache-Control", "no-cache")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        sent = events[: len(events) // 2] if behaviour.cut else events
        for data in sent:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            self.wfile.flush()
            time.sleep(behaviour.pause)
        if behaviour.cut:
            # No closing chunk: the caller has to notice that the answer is not whole.
            self.close_connection = True
        else:
            self.wfile.write(b"0\r\n\r\n")

    def _read_body(self) -> bytes | None:
        """The request's body, or None if its length is missing or too large; the connection then ends."""
        try:
            length = int(self.headers.get("Content-Length", ""))
        except ValueError:
            length = -1
        if not 0 <= length <= _LONGEST_BODY:
            self.close_connection = True
            return None
        return self.rfile.read(length)

    def _send_failure(self, protocol: _Protocol, failure: _Failure) -> None:
        headers = [("Retry-After", str(failure.retry_after))] if failure.retry_after is not None else []
        self._send_json(failure.status, protocol.error(failure.status, failure.code, str(failure)), headers)

    def _send_json(self, status: int, data: Any, headers: Iterable[tuple[str, str]] = ()) -> None:
        body = json.dumps(data).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


def _fails(behaviour: Behaviour) -> bool:
    return behaviour.status != HTTPStatus.OK


def _parse(body: bytes | None) -> dict[str, Any]:
    if body is None:
        raise BadRequest(f"the body needs a Content-Length of at most {_LONGEST_BODY} bytes")
    try:
        request = json.loads(body)
    except ValueError as error:
        raise BadRequest(f"the body is no JSON: {error}") from None
    if not isinstance(request, dict):
        raise BadRequest("the body must be a JSON object")
    return request
