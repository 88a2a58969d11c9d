"""Operators and runners that are newer than the gateway; the API server is scripted, no cluster is needed."""

import json
from typing import Any

import pytest

from assay.api.labels import TRY_SPEC
from assay.gateway.auth import Authenticator
from assay.gateway.errors import GatewayError
from tests.gateway.harness import try_spec
from tests.gateway.test_verdicts import ScriptedApiServer, header


class NewerOperator(ScriptedApiServer):
    """Its pods carry a try spec with these fields on top."""

    def __init__(self, **fields: Any) -> None:
        super().__init__()
        self._fields = fields

    async def get(self, path: str, parameters: Any = None) -> dict[str, Any]:
        pod = await super().get(path, parameters)
        spec = json.loads(pod["metadata"]["annotations"][TRY_SPEC]) | self._fields
        pod["metadata"]["annotations"][TRY_SPEC] = json.dumps(spec)
        return pod


async def test_a_field_that_the_gateway_does_not_know_keeps_no_try_from_working() -> None:
    judge = Authenticator(NewerOperator(tracing={"level": 2}), "evals", 20)
    caller = await judge.caller(header(600), "10.0.0.1")
    assert caller.spec.task == try_spec("evals", "evidence").task


async def test_a_newer_schema_asks_the_caller_to_come_again() -> None:
    """While the gateway is rolled out the next replica may be the new one."""
    judge = Authenticator(NewerOperator(schemaVersion=2), "evals", 20)
    with pytest.raises(GatewayError, match="version 2 was written by a newer Assay") as caught:
        await judge.caller(header(600), "10.0.0.1")
    assert (caught.value.status, caught.value.code) == (503, "GatewayOutdated")
