"""Waiting for the operator's own work, by its metrics."""

from tests.operator_kit.cluster import until
from tests.operator_kit.process import Operator


async def two_more_passes(operator: Operator) -> None:
    """Until it has looked at its runs twice more."""
    before = await operator.metric("assay_reconcile_seconds_count")

    async def more() -> bool:
        return await operator.metric("assay_reconcile_seconds_count") >= before + 2

    await until("two more passes", more)
