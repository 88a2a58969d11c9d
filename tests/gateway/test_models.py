"""Model calls, from the runner's side and the provider's."""

import asyncio
import gzip
import json
import uuid

import pytest
from aiohttp import web

from assay.api.labels import PROVIDER_KEY
from assay.api.tryspec import ModelTarget, SecretKeyRef
from tests.fixtures.s3 import free_port
from tests.gateway.conftest import StartGateway
from tests.gateway.harness import Evals, Runner, try_spec
from tests.gateway.model_provider import CHAT, KEY, Connect, Provider

pytestmark = [pytest.mark.api, pytest.mark.timeout(180)]


class TestForwarding:
    async def test_the_call_arrives_with_the_real_key_and_not_with_ours(
        self, connect: Connect, provider: Provider, secret: SecretKeyRef
    ) -> None:
        runner = await connect(provider.url + "/v1", secret)
        body = json.dumps({"model": "m", "messages": []}).encode()
        answer = await runner.call("POST", CHAT + "?beta=true", body, {"Content-Type": "application/json"})
        assert (answer.status, answer.code, answer.json) == (200, None, {"choices": []})
        assert answer.headers["x-request-id"] == "r1"
        seen = provider.requests[0]
        assert seen.path_qs == "/v1/chat/completions?beta=true"
        assert seen.headers.getall("Authorization") == [f"Bearer {KEY}"]
        assert seen.headers["Content-Type"] == "application/json"
        assert seen.content_length == len(body)
        assert provider.bodies == [body]

    async def test_anthropic(self, connect: Connect, provider: Provider, secret: SecretKeyRef) -> None:
        runner = await connect(provider.url, secret, "AnthropicMessages")
        await runner.call("POST", "/v1/models/0/v1/messages", b"{}", {"anthropic-beta": "x"})
        seen = provider.requests[0]
        assert (seen.path, seen.headers["x-api-key"]) == ("/v1/messages", KEY)
        assert "Authorization" not in seen.headers
        assert (seen.headers["anthropic-version"], seen.headers["anthropic-beta"]) == ("2023-06-01", "x")

    async def test_a_model_without_a_secret(self, connect: Connect, provider: Provider) -> None:
        runner = await connect(provider.url)
        assert (await runner.call("POST", CHAT, b"{}")).status == 200
        assert "Authorization" not in provider.requests[0].headers

    @pytest.mark.parametrize("status", [400, 401, 403, 429, 500, 529])
    async def test_a_providers_error_stays_the_providers(
        self, connect: Connect, provider: Provider, status: int
    ) -> None:
        async def fail(_: web.Request) -> web.Response:
            return web.json_response({"error": "theirs"}, status=status, headers={"Retry-After": "7"})

        provider.answer = fail
        answer = await (await connect(provider.url)).call("POST", CHAT, b"{}")
        assert (answer.status, answer.code, answer.json) == (status, None, {"error": "theirs"})
        assert answer.headers["Retry-After"] == "7"

    async def test_a_provider_that_quotes_the_key_does_not_leak_it(
        self, connect: Connect, provider: Provider, secret: SecretKeyRef
    ) -> None:
        async def quote(request: web.Request) -> web.Response:
            return web.Response(status=401, text=f"no such key: {request.headers['Authorization']}!")

        provider.answer = quote
        answer = await (await connect(provider.url, secret)).call("POST", CHAT, b"{}")
        assert answer.body == b"no such key: Bearer [provider key]!"

    async def test_a_redirect_is_not_followed(
        self, connect: Connect, provider: Provider, secret: SecretKeyRef
    ) -> None:
        async def away(_: web.Request) -> web.Response:
            return web.Response(status=307, headers={"Location": provider.url + "/elsewhere"})

        provider.answer = away
        runner = await connect(provider.url, secret)
        async with runner.session.post(
            runner.url + CHAT, headers=runner.headers(), allow_redirects=False
        ) as answer:
            assert answer.status == 307
        assert len(provider.requests) == 1

    async def test_an_encoded_request_passes_as_it_is(self, connect: Connect, provider: Provider) -> None:
        body = gzip.compress(b"{}")
        headers = {"Content-Encoding": "gzip", "Content-Type": "application/json"}

        async def raw(request: web.Request) -> web.Response:
            return web.Response(text=f"{request.headers['Content-Encoding']} {request.content_length}")

        provider.answer = raw
        answer = await (await connect(provider.url)).call("POST", CHAT, body, headers)
        assert answer.body.decode() == f"gzip {len(body)}"

    async def test_large_bodies_cross_both_ways(self, connect: Connect, provider: Provider) -> None:
        async def echo(_: web.Request) -> web.StreamResponse:
            return web.Response(text=str(len(provider.bodies[-1])) * 1_000_000)

        provider.answer = echo
        answer = await (await connect(provider.url)).call("POST", CHAT, b"x" * 10_000_000)
        assert answer.body == b"10000000" * 1_000_000


class TestRefused:
    async def test_a_model_that_the_variant_lacks(self, connect: Connect, provider: Provider) -> None:
        runner = await connect(provider.url)
        for index in ("1", "-1", "x", "0x0"):
            answer = await runner.call("POST", f"/v1/models/{index}/chat/completions", b"{}")
            assert (answer.status, answer.code) == (403, "Forbidden")
        assert provider.requests == []

    async def test_another_path_of_the_provider(self, connect: Connect, provider: Provider) -> None:
        runner = await connect(provider.url)
        answer = await runner.call("POST", "/v1/models/0/files", b"{}")
        assert (answer.status, answer.code) == (403, "Forbidden")
        assert provider.requests == []

    @pytest.mark.parametrize(
        ("values", "why"),
        [
            (None, "does not exist"),
            ({"other": "x"}, "has no such key"),
            ({"api-key": " \n"}, "is empty"),
            ({"api-key": "schlüssel"}, "not ASCII"),
            ({"api-key": "a\nb"}, "control characters"),
        ],
    )
    async def test_a_secret_that_cannot_be_used_is_named(
        self, connect: Connect, evals: Evals, provider: Provider, values: dict[str, str] | None, why: str
    ) -> None:
        name = f"s-{uuid.uuid4().hex[:6]}"
        if values:
            evals.secret(name, **values)
        runner = await connect(provider.url, SecretKeyRef(name=name, key="api-key"))
        answer = await runner.call("POST", CHAT, b"{}")
        assert (answer.status, answer.code) == (424, "SecretMissing")
        assert f"Secret {evals.name}/{name}, key api-key" in answer.message
        assert why in answer.message
        assert provider.requests == []

    @pytest.mark.parametrize("value", [None, "", "false"])
    async def test_a_secret_that_is_no_providers_key_is_sent_nowhere(
        self, connect: Connect, evals: Evals, provider: Provider, value: str | None
    ) -> None:
        """Who creates an AgentVariant names a Secret and the endpoint, e.g. the storage keys."""
        name = f"storage-{uuid.uuid4().hex[:6]}"
        labels = {} if value is None else {PROVIDER_KEY: value}
        evals.secret(name, labels, AWS_SECRET_ACCESS_KEY="not-yours")
        runner = await connect(provider.url, SecretKeyRef(name=name, key="AWS_SECRET_ACCESS_KEY"))
        answer = await runner.call("POST", CHAT, b"{}")
        assert (answer.status, answer.code) == (424, "SecretMissing")
        command = f"kubectl -n {evals.name} label --overwrite secret {name} assay.dev/provider-key=true"
        assert command in answer.message
        assert provider.requests == []

    async def test_a_secret_that_appears_later_is_used(
        self, connect: Connect, evals: Evals, provider: Provider
    ) -> None:
        runner = await connect(provider.url, SecretKeyRef(name="late", key="api-key"))
        assert (await runner.call("POST", CHAT, b"{}")).code == "SecretMissing"
        evals.secret("late", **{"api-key": KEY})
        assert (await runner.call("POST", CHAT, b"{}")).status == 200

    async def test_nobody_listens(self, connect: Connect) -> None:
        runner = await connect(f"http://127.0.0.1:{free_port()}/v1")
        answer = await runner.call("POST", CHAT, b"{}")
        assert (answer.status, answer.code) == (502, "ProviderUnreachable")

    async def test_a_name_that_does_not_resolve(self, connect: Connect) -> None:
        runner = await connect("http://provider.invalid/v1")
        answer = await runner.call("POST", CHAT, b"{}")
        assert (answer.status, answer.code) == (502, "ProviderUnreachable")
        assert "provider.invalid" in answer.message

    async def test_a_provider_that_says_nothing(
        self, start_gateway: StartGateway, connect: Connect, provider: Provider
    ) -> None:
        async def thinking(_: web.Request) -> web.StreamResponse:
            await asyncio.Event().wait()
            return web.Response()

        provider.answer = thinking
        runner = await connect(provider.url, gateway=start_gateway(ASSAY_PROVIDER_SILENCE_SECONDS="0.3"))
        answer = await runner.call("POST", CHAT, b"{}")
        assert (answer.status, answer.code) == (504, "ProviderTimeout")

    async def test_a_request_above_the_limit(
        self, start_gateway: StartGateway, connect: Connect, provider: Provider
    ) -> None:
        runner = await connect(provider.url, gateway=start_gateway(ASSAY_MODEL_REQUEST_BYTES="100"))
        answer = await runner.call("POST", CHAT, b"x" * 101)
        assert (answer.status, answer.code) == (413, "TooLarge")
        assert provider.requests == []


class TestConcurrency:
    async def test_calls_beyond_the_limit_wait_and_then_go_on(
        self, start_gateway: StartGateway, connect: Connect, provider: Provider
    ) -> None:
        gateway = start_gateway(ASSAY_PROVIDER_CONCURRENCY="2")
        go_on = asyncio.Event()
        running = most = 0

        async def slow(_: web.Request) -> web.StreamResponse:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await go_on.wait()
            running -= 1
            return web.Response()

        provider.answer = slow
        runner = await connect(provider.url, gateway=gateway)
        calls = [asyncio.create_task(runner.call("POST", CHAT, b"{}")) for _ in range(6)]
        waiting = b"assay_gateway_model_calls_waiting 4.0"
        # A call that has its place may still be on its way to the provider.
        while running < 2 or waiting not in (await runner.call("GET", "/metrics")).body:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        go_on.set()
        assert [answer.status for answer in await asyncio.gather(*calls)] == [200] * 6
        assert most == 2

    async def test_a_call_that_waits_too_long_is_told_so(
        self, start_gateway: StartGateway, connect: Connect, provider: Provider
    ) -> None:
        gateway = start_gateway(ASSAY_PROVIDER_CONCURRENCY="1", ASSAY_PROVIDER_QUEUE_SECONDS="0.2")
        reached, go_on = asyncio.Event(), asyncio.Event()

        async def slow(_: web.Request) -> web.StreamResponse:
            reached.set()
            await go_on.wait()
            return web.Response()

        provider.answer = slow
        runner = await connect(provider.url, gateway=gateway)
        first = asyncio.create_task(runner.call("POST", CHAT, b"{}"))
        await reached.wait()
        answer = await runner.call("POST", CHAT, b"{}")
        assert (answer.status, answer.code, answer.headers["Retry-After"]) == (429, "ProviderBusy", "5")
        go_on.set()
        assert (await first).status == 200


async def test_metrics_count_calls_and_do_not_grow_with_callers(
    start_gateway: StartGateway, connect: Connect, provider: Provider
) -> None:
    gateway = start_gateway()

    async def series() -> list[str]:
        async with Runner(gateway.url, None) as nobody:
            text = (await nobody.call("GET", "/metrics")).body.decode()
        return sorted(line for line in text.splitlines() if line.startswith("assay_"))

    await (await connect(provider.url, gateway=gateway)).call("POST", CHAT, b"{}")
    one = await series()
    assert 'assay_gateway_model_calls_total{answer="2xx",api="OpenAIChat"} 1.0' in one
    for _ in range(3):
        await (await connect(provider.url, gateway=gateway)).call("POST", CHAT, b"{}")
    many = await series()
    assert 'assay_gateway_model_calls_total{answer="2xx",api="OpenAIChat"} 4.0' in many
    assert [line.rpartition(" ")[0] for line in one] == [line.rpartition(" ")[0] for line in many]


async def test_the_log_never_shows_a_key_or_a_token(
    start_gateway: StartGateway, evals: Evals, bucket: str, provider: Provider, secret: SecretKeyRef
) -> None:
    gateway = start_gateway(ASSAY_LOG_LEVEL="debug")
    model = ModelTarget(role="main", name="m", api="OpenAIChat", endpoint=provider.url, secret_ref=secret)
    token = evals.attempt(try_spec(evals.name, bucket, [model])).token()
    async with Runner(gateway.url, token) as runner:
        assert (await runner.call("POST", CHAT, b"{}")).status == 200
        assert (await runner.upload("f", b"x")).status == 200
    assert "job=task-1-r0-t1" in gateway.log
    for credential in (KEY, token, token.split(".")[2], "test-secret"):
        assert credential not in gateway.log
