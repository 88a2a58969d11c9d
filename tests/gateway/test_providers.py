"""Which calls are forwarded, where to, and which headers cross."""

import pytest

from assay.api.tryspec import ModelTarget, ProviderAPI
from assay.gateway.errors import GatewayError
from assay.gateway.providers import provider_of, request_headers, response_headers, target_url


def model(api: ProviderAPI, endpoint: str) -> ModelTarget:
    return ModelTarget(role="main", name="m", api=api, endpoint=endpoint)


OPENAI = model("OpenAIChat", "https://api.openai.com/v1")
ANTHROPIC = model("AnthropicMessages", "https://api.anthropic.com")


@pytest.mark.parametrize(
    ("api", "endpoint", "method", "rest", "url"),
    [
        ("OpenAIChat", "https://o/v1", "POST", "chat/completions", "https://o/v1/chat/completions"),
        ("OpenAIChat", "https://o/v1/", "POST", "v1/chat/completions", "https://o/v1/chat/completions"),
        ("OpenAIChat", "https://o/openai", "POST", "chat/completions", "https://o/openai/chat/completions"),
        ("OpenAIChat", "http://m:8000", "POST", "v1/chat/completions", "http://m:8000/v1/chat/completions"),
        ("OpenAIChat", "https://o/v1", "GET", "models", "https://o/v1/models"),
        ("AnthropicMessages", "https://a", "POST", "v1/messages", "https://a/v1/messages"),
        ("AnthropicMessages", "https://a", "POST", "messages", "https://a/v1/messages"),
        ("AnthropicMessages", "https://a/v1", "POST", "v1/messages", "https://a/v1/messages"),
        (
            "AnthropicMessages",
            "https://a",
            "POST",
            "v1/messages/count_tokens",
            "https://a/v1/messages/count_tokens",
        ),
    ],
)
def test_target(api: ProviderAPI, endpoint: str, method: str, rest: str, url: str) -> None:
    assert target_url(model(api, endpoint), method, rest) == url


@pytest.mark.parametrize(
    ("target", "method", "rest"),
    [
        (OPENAI, "POST", "files"),
        (OPENAI, "POST", "responses"),
        (OPENAI, "GET", "chat/completions"),
        (OPENAI, "DELETE", "models"),
        (OPENAI, "POST", "../v2/chat/completions"),
        (OPENAI, "POST", "chat/completions/../../files"),
        (OPENAI, "POST", "v1/v1/chat/completions"),
        (OPENAI, "POST", "messages"),
        (ANTHROPIC, "POST", "chat/completions"),
        (ANTHROPIC, "POST", "messages/batches"),
    ],
)
def test_nothing_but_model_calls(target: ModelTarget, method: str, rest: str) -> None:
    with pytest.raises(GatewayError, match="is not forwarded") as refused:
        target_url(target, method, rest)
    assert (refused.value.status, refused.value.code) == (403, "Forbidden")


def test_credentials_in_an_endpoint_do_not_name_the_provider() -> None:
    assert provider_of(model("OpenAIChat", "https://user:secret@host:8443/v1")) == "host:8443"


@pytest.mark.parametrize(
    ("target", "header", "value"),
    [(OPENAI, "Authorization", "Bearer real-key"), (ANTHROPIC, "x-api-key", "real-key")],
)
def test_the_real_key_replaces_whatever_the_caller_sent(target: ModelTarget, header: str, value: str) -> None:
    own = [
        "Authorization",
        "authorization",
        "X-Api-Key",
        "api-key",
        "x-goog-api-key",
        "Cookie",
        "Proxy-Authorization",
    ]
    headers = request_headers([(name, "callers-own") for name in own], target, "real-key")
    assert "callers-own" not in headers.values()
    assert headers.getall(header) == [value]


def test_a_model_without_a_key_gets_none() -> None:
    headers = request_headers([("Authorization", "Bearer callers-own")], OPENAI, None)
    assert "Authorization" not in headers


def test_hop_by_hop_headers_stay_and_others_cross() -> None:
    given = [
        ("Connection", "keep-alive, X-This-Hop"),
        ("Keep-Alive", "5"),
        ("Transfer-Encoding", "chunked"),
        ("X-This-Hop", "1"),
        ("Host", "assay-gateway.internal"),
        ("Accept-Encoding", "gzip"),
        ("Anthropic-Beta", "a"),
        ("anthropic-beta", "b"),
        ("Content-Type", "application/json"),
        ("X-Stainless-Retry-Count", "0"),
    ]
    headers = request_headers(given, ANTHROPIC, "k")
    assert sorted(headers.items()) == sorted(
        [
            ("Anthropic-Beta", "a"),
            ("anthropic-beta", "b"),
            ("Content-Type", "application/json"),
            ("X-Stainless-Retry-Count", "0"),
            ("Accept-Encoding", "identity"),
            ("anthropic-version", "2023-06-01"),
            ("x-api-key", "k"),
        ]
    )


def test_the_callers_anthropic_version_wins() -> None:
    headers = request_headers([("Anthropic-Version", "2024-01-01")], ANTHROPIC, None)
    assert headers.getall("anthropic-version") == ["2024-01-01"]


def test_a_provider_cannot_pose_as_the_gateway() -> None:
    headers = response_headers([("X-Assay-Error", "Forbidden"), ("Set-Cookie", "a=b"), ("Retry-After", "7")])
    assert dict(headers) == {"Retry-After": "7"}
