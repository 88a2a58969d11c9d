"""How long a verdict is believed: time and the API server's answers are given, no cluster is needed."""

import asyncio
import base64
import json
import time
from typing import Any

import pytest

from assay.adapters.kube import KubeClient, KubeUnavailable
from assay.adapters.kube_config import KubeConfig
from assay.api.labels import ROLE, ROLE_ATTEMPT, TRY_SPEC
from assay.gateway.auth import Authenticator
from assay.gateway.errors import GatewayError
from tests.gateway.harness import try_spec

UID = "11111111-2222-3333-4444-555555555555"


class ScriptedApiServer(KubeClient):
    """Says yes to every token, counts how often it was asked, and can be switched off."""

    def __init__(self) -> None:
        super().__init__(KubeConfig(server="http://127.0.0.1:1"))
        self.reviews = 0
        self.away = False

    async def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        if self.away:
            raise KubeUnavailable("the API server did not answer")
        self.reviews += 1
        extra = {
            "authentication.kubernetes.io/pod-name": ["p"],
            "authentication.kubernetes.io/pod-uid": [UID],
        }
        user = {"username": "system:serviceaccount:evals:assay-attempt", "extra": extra}
        return {"status": {"authenticated": True, "audiences": ["assay-gateway"], "user": user}}

    async def get(self, path: str, parameters: Any = None) -> dict[str, Any]:
        spec = try_spec("evals", "evidence").model_dump_json()
        return {
            "metadata": {
                "name": "p",
                "uid": UID,
                "labels": {ROLE: ROLE_ATTEMPT},
                "annotations": {TRY_SPEC: spec},
            }
        }


def header(expires_in: float) -> str:
    payload = base64.urlsafe_b64encode(json.dumps({"exp": time.time() + expires_in}).encode()).decode()
    return f"Bearer h.{payload.rstrip('=')}.s"


@pytest.fixture
def server() -> ScriptedApiServer:
    return ScriptedApiServer()


async def test_a_verdict_is_remembered_and_survives_an_absent_api_server(server: ScriptedApiServer) -> None:
    judge, own = Authenticator(server, "evals", 20), header(600)
    first = await judge.caller(own, "10.0.0.1")
    server.away = True
    assert await judge.caller(own, "10.0.0.1") == first
    assert server.reviews == 1


async def test_it_ends_after_its_time(server: ScriptedApiServer) -> None:
    now = time.time()
    judge, own = Authenticator(server, "evals", 20, lambda: now), header(600)
    await judge.caller(own, "10.0.0.1")
    now += 21
    await judge.caller(own, "10.0.0.1")
    assert server.reviews == 2


async def test_it_ends_with_the_token(server: ScriptedApiServer) -> None:
    now = time.time()
    judge, own = Authenticator(server, "evals", 20, lambda: now), header(5)
    await judge.caller(own, "10.0.0.1")
    now += 6
    await judge.caller(own, "10.0.0.1")
    assert server.reviews == 2


async def test_one_token_never_answers_for_another(server: ScriptedApiServer) -> None:
    judge = Authenticator(server, "evals", 20)
    await judge.caller(header(600), "10.0.0.1")
    await judge.caller(header(601), "10.0.0.1")
    assert server.reviews == 2


async def test_a_failure_is_not_remembered(server: ScriptedApiServer) -> None:
    judge, own = Authenticator(server, "evals", 20), header(600)
    server.away = True
    with pytest.raises(KubeUnavailable):
        await judge.caller(own, "10.0.0.1")
    server.away = False
    await judge.caller(own, "10.0.0.1")


async def test_an_answer_without_our_audience_proves_nothing(
    server: ScriptedApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An API server whose authenticator ignores audiences leaves the list out."""
    answer = await server.create("", {})
    del answer["status"]["audiences"]

    async def without(path: str, body: dict[str, Any]) -> dict[str, Any]:
        return answer

    monkeypatch.setattr(server, "create", without)
    with pytest.raises(GatewayError, match="not valid for this gateway"):
        await Authenticator(server, "evals", 20).caller(header(600), "10.0.0.1")


async def test_a_flood_from_one_pod_does_not_delay_the_others(server: ScriptedApiServer) -> None:
    """The agent has no token, but it can invent any number of them."""
    judge = Authenticator(server, "evals", 20)
    release = asyncio.Event()
    honest = server.create

    async def slow(path: str, body: dict[str, Any]) -> dict[str, Any]:
        if body["spec"]["token"].startswith("bad"):
            await release.wait()
        return await honest(path, body)

    server.create = slow  # type: ignore[method-assign]
    flood = [asyncio.create_task(judge.caller(f"Bearer bad{n}.b.c", "10.0.0.66")) for n in range(500)]
    await asyncio.sleep(0)
    await asyncio.wait_for(judge.caller(header(600), "10.0.0.1"), 20)
    release.set()
    await asyncio.gather(*flood)
