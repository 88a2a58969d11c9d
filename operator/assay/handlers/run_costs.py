"""What tries cost, found before they are recorded: a budget in money is held against the journal's sums."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import batched

from assay.api.evaluation_run import EvaluationRun
from assay.core.attempt_records import calls_of
from assay.core.plan import RunPlan
from assay.core.prices import Prices
from assay.core.record import TryRecord
from assay.handlers.run_report import READ_AT_ONCE, RunReporter

log = logging.getLogger(__name__)


class RunCosts:
    """Costs of one run's tries. Raises `StorageError`."""

    def __init__(self, reporter: RunReporter) -> None:
        self._reporter = reporter
        self._known: dict[str, Decimal | None] = {}
        """Of tries that are not recorded yet, by Job name: the next pass does not read their calls again."""

    async def priced(
        self, run: EvaluationRun, plan: RunPlan | None, prices: Prices | None, tries: Sequence[TryRecord]
    ) -> list[TryRecord]:
        """The tries with their costs, where the run has a budget in money; else as they are.

        None of them as long as there are no prices: what is recorded without its cost never gets one. Without
        a plan, which a run that makes no more tries lacks, their cost stays unknown.
        """
        if plan is None or run.spec.budget is None or run.spec.budget.usd is None:
            return list(tries)
        if prices is None:
            return []
        names = {one.job_name for one in tries}
        self._known = {name: cost for name, cost in self._known.items() if name in names}
        new = [one for one in tries if one.job_name not in self._known]
        for some in batched(new, READ_AT_ONCE, strict=False):
            costs = await asyncio.gather(*(self._cost(plan, prices, one) for one in some))
            self._known |= {one.job_name: cost for one, cost in zip(some, costs, strict=True)}
        return [replace(one, cost_usd=self._known[one.job_name]) for one in tries]

    async def _cost(self, plan: RunPlan, prices: Prices, record: TryRecord) -> Decimal | None:
        spec = plan.variants[record.key.variant].spec
        models = [] if record.verifies else [one.name for one in spec.models]
        try:
            found = await self._reporter.evidence_of(record) if models and record.manifest_digest else None
            calls, _ = calls_of(found, models, ())
            return prices.of_calls(calls).usd
        except ValueError as error:
            log.warning("Job %s: its cost is unknown: %s", record.job_name, error)
            return None
