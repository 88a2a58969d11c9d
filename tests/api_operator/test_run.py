"""A run from its creation to its end, as a user sees it through the API server."""

import pytest

from assay.api.outcome import OutcomeClass
from tests.api_operator.conftest import Operator, Wishes
from tests.operator_kit.cluster import Cluster, try_spec

pytestmark = pytest.mark.api


async def test_a_run_makes_its_jobs_and_ends_with_the_vector(
    cluster: Cluster, operator: Operator, wishes: Wishes
) -> None:
    await wishes.ledger(tasks=3)
    await wishes.variant()
    await wishes.run(parallelism=2)
    async with operator.running():
        await cluster.condition("ledgers", "ledger", "Verified", "True")
        await cluster.condition("agentvariants", "oracle", "Accepted", "True")
        first, second = await cluster.live_pods("run", 2)
        assert len(await cluster.jobs("run")) == 2, "no more than parallelism"
        assert try_spec(first).identity.namespace == cluster.namespace
        await cluster.finish(first, reward=1.0)
        await cluster.finish(second, reward=0.0)
        (third,) = await cluster.live_pods("run", 1)
        await cluster.finish(third, reward=1.0)
        await cluster.condition("evaluationruns", "run", "Complete", "True", "AllRecorded")
    status = (await cluster.get("evaluationruns", "run"))["status"]
    assert status["attempts"] == {"planned": 3, "waiting": 0, "live": 0, "recorded": 3, "invalid": 0}
    (row,) = status["vector"]
    assert (row["scoreStrict"], row["coverage"], row["tries"]) == ("0.666667", "1", 3)
    assert row["inputTokens"] == {"mean": "100", "n": 3}
    assert status["outcomes"] == [{"outcome": OutcomeClass.GRADED, "tries": 3}]
