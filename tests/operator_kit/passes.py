"""Waiting for the operator's own work, by its metrics."""

import aiohttp

from tests.api_operator.conftest import Operator
from tests.operator_kit.cluster import until


async def metrics(operator: Operator) -> str:
    """What a scrape shows."""
    url = f"http://127.0.0.1:{operator.ports['ASSAY_METRICS_PORT']}/metrics"
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return await answer.text()


async def passed(operator: Operator) -> float:
    """How many passes the process has made over its runs."""
    for line in (await metrics(operator)).splitlines():
        if line.startswith("assay_reconcile_seconds_count"):
            return float(line.split()[-1])
    return 0.0


async def two_more_passes(operator: Operator) -> None:
    """Until it has looked at its runs twice more."""
    before = await passed(operator)

    async def more() -> bool:
        return await passed(operator) >= before + 2

    await until("two more passes", more)
