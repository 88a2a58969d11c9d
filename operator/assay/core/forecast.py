"""What a plan may take at most: tries, time, resources. Bounds, never guesses."""

from dataclasses import dataclass

from assay.api.evaluation_run import EvaluationRunSpec
from assay.core.plan import RunLedger, RunPlan, deadlines, percent


@dataclass(frozen=True, slots=True)
class LedgerForecast:
    """One ledger of the plan. Resources are the largest task container's: requested, and at most."""

    name: str
    digest: str
    tasks: int
    clusters: int
    repetitions: int
    attempts: int
    longest_try_seconds: int
    cpu_millis: tuple[int, int]
    memory_mib: tuple[int, int]
    storage_mib: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Forecast:
    """Bounds of a run."""

    ledgers: tuple[LedgerForecast, ...]
    attempts: int
    most_tries: int
    """If every attempt spends every retry limit."""
    most_seconds: int
    """Until the end if every try takes all the time that it may, and none is repeated."""


def forecast(spec: EvaluationRunSpec, plan: RunPlan) -> Forecast:
    """The bounds of the plan at the parallelism of `spec`."""
    ledgers = tuple(_ledger(spec, plan, ledger) for ledger in plan.ledgers.values())
    total = sum(
        _try_seconds(spec, ledger, task) * plan.repetitions[ledger.name] * len(plan.variants)
        for ledger in plan.ledgers.values()
        for task in ledger.tasks
    )
    longest = max((one.longest_try_seconds for one in ledgers), default=0)
    return Forecast(
        ledgers=ledgers,
        attempts=len(plan.attempts),
        most_tries=sum(one.attempts * (1 + _retries(plan, one.name)) for one in ledgers),
        # The bound of list scheduling (Graham 1966): the last to start begins when all slots are busy.
        most_seconds=-(-total // spec.parallelism) + longest,
    )


def _ledger(spec: EvaluationRunSpec, plan: RunPlan, ledger: RunLedger) -> LedgerForecast:
    tasks, repetitions = ledger.tasks.values(), plan.repetitions[ledger.name]
    multiples = ledger.header.plan.resources
    asked = [task.resources for task in tasks]

    def both(most: int) -> tuple[int, int]:
        return percent(most, multiples.request_percent), percent(most, multiples.limit_percent)

    return LedgerForecast(
        name=ledger.name,
        digest=ledger.digest,
        tasks=len(ledger.tasks),
        clusters=len({task.cluster for task in tasks}),
        repetitions=repetitions,
        attempts=len(ledger.tasks) * repetitions * len(plan.variants),
        longest_try_seconds=max(_try_seconds(spec, ledger, task) for task in ledger.tasks),
        cpu_millis=both(max(one.cpu_millis for one in asked)),
        memory_mib=both(max(one.memory_mib for one in asked)),
        storage_mib=both(max(one.storage_mib for one in asked)),
    )


def _try_seconds(spec: EvaluationRunSpec, ledger: RunLedger, task: str) -> int:
    times = deadlines(spec, ledger, ledger.tasks[task])
    phases = (times.setup_seconds, times.agent_seconds, times.verifier_seconds, times.upload_seconds)
    return spec.deadlines.pending_seconds + sum(phases)


def _retries(plan: RunPlan, ledger: str) -> int:
    limits = plan.limits[ledger]
    return limits.infrastructure + limits.disruption + limits.verification + limits.refusal
