"""Runs of many attempts on a real API server whose nodes KWOK simulates, with the operator as a process.

python -m localcluster up --profile simulated
python -m localcluster shell --profile simulated -- python -m pytest tests/scale
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.api.conftest import _connection, _kinds  # noqa: F401  fixtures
from tests.api_operator.conftest import (  # noqa: F401  fixtures
    Operator,
    Wishes,
    cluster,
    operator,
    s3,
    wishes,
)
from tests.operator_kit.cluster import Cluster
from tests.operator_kit.fates import LIMITS, Script
from tests.operator_kit.runners import TOLD


@pytest.fixture(autouse=True)
async def simulated(cluster: Cluster) -> None:  # noqa: F811
    nodes = await cluster.client.get("/api/v1/nodes")
    names = {one["metadata"]["name"] for one in nodes["items"]}
    if "sim-told" not in names:
        pytest.fail("these tests need simulated nodes: see tests/scale/conftest.py", pytrace=False)


async def begin(wishes: Wishes, script: Script, parallelism: int) -> None:  # noqa: F811
    """Put the run of the script into the cluster."""
    tasks = len({key.task for key in script.fates})
    variants = sorted({key.variant for key in script.fates})
    repetitions = 1 + max(key.repetition for key in script.fates)
    await wishes.ledger(tasks=tasks)
    for name in variants:
        await wishes.variant(name)
    await wishes.run(
        variants=[{"name": name} for name in variants],
        repetitions=repetitions,
        parallelism=parallelism,
        retryLimits=LIMITS,
        minCoveragePercent=50,
        placement=TOLD,
    )


@asynccontextmanager
async def kept_running(operator: Operator, **changes: str) -> AsyncIterator[None]:  # noqa: F811
    """An operator that is started again whenever it ends, as a kubelet does."""

    async def keep() -> None:
        while True:
            process = await operator.start(**changes)
            assert await process.wait() == 1, "it asks to be restarted"

    keeping = asyncio.create_task(keep())
    try:
        yield
    finally:
        keeping.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await keeping
        await operator.end()
