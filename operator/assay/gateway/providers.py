"""What differs between provider APIs: paths, credentials, and which headers may cross."""

from collections.abc import Iterable
from urllib.parse import urlsplit

from multidict import CIMultiDict

from assay.api.tryspec import ModelTarget, ProviderAPI
from assay.gateway.errors import Code, GatewayError

ANTHROPIC_VERSION = "2023-06-01"

_PATHS: dict[ProviderAPI, dict[str, frozenset[str]]] = {
    "OpenAIChat": {"chat/completions": frozenset({"POST"}), "models": frozenset({"GET"})},
    "AnthropicMessages": {
        "messages": frozenset({"POST"}),
        "messages/count_tokens": frozenset({"POST"}),
        "models": frozenset({"GET"}),
    },
}

_HOP_BY_HOP = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_CALLERS_OWN = frozenset(
    {"accept-encoding", "api-key", "authorization", "content-length", "cookie", "expect", "forwarded", "host"}
    | {"x-api-key", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-goog-api-key"}
)
_PROVIDERS_OWN = frozenset({"set-cookie", "x-assay-error"})


def target_url(model: ModelTarget, method: str, rest: str) -> str:
    """Where the call goes. Raises GatewayError 403 for any path that is no plain model call."""
    operation = rest.removeprefix("v1/")
    if method not in _PATHS[model.api].get(operation, frozenset()):
        allowed = ", ".join(f"{next(iter(methods))} {path}" for path, methods in _PATHS[model.api].items())
        raise GatewayError(
            403, Code.FORBIDDEN, f"{method} {rest} is not forwarded to {model.api}; only {allowed}"
        )
    endpoint = model.endpoint.rstrip("/")
    versioned = urlsplit(endpoint).path.endswith("/v1")
    # Anthropic's endpoints are named without /v1 and their clients add it; OpenAI's are named with it.
    wants_version = rest.startswith("v1/") or model.api == "AnthropicMessages"
    return f"{endpoint}/v1/{operation}" if wants_version and not versioned else f"{endpoint}/{operation}"


def provider_of(model: ModelTarget) -> str:
    """Host and port: what shares one limit of calls at a time."""
    return urlsplit(model.endpoint).netloc.rpartition("@")[2]


def request_headers(
    given: Iterable[tuple[str, str]], model: ModelTarget, key: str | None
) -> CIMultiDict[str]:
    """The caller's headers without its own credentials, and with the real key."""
    headers = _crossing(given, _CALLERS_OWN)
    # Unencoded, so that the runner can meter what it passes on, and a key in an error can be found.
    headers["Accept-Encoding"] = "identity"
    if model.api == "AnthropicMessages":
        headers.setdefault("anthropic-version", ANTHROPIC_VERSION)
    if key is not None and model.api == "AnthropicMessages":
        headers["x-api-key"] = key
    elif key is not None:
        headers["Authorization"] = f"Bearer {key}"
    return headers


def response_headers(given: Iterable[tuple[str, str]]) -> CIMultiDict[str]:
    """The provider's headers that reach the caller."""
    return _crossing(given, _PROVIDERS_OWN)


def _crossing(given: Iterable[tuple[str, str]], dropped: frozenset[str]) -> CIMultiDict[str]:
    pairs = list(given)
    # A message may name further headers of its own hop (RFC 9110 §7.6.1).
    named = {
        part.strip().lower()
        for name, value in pairs
        if name.lower() == "connection"
        for part in value.split(",")
    }
    drop = _HOP_BY_HOP | dropped | named
    return CIMultiDict((name, value) for name, value in pairs if name.lower() not in drop)
