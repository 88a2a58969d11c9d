"""From a run and what its names stand for to the attempts that it consists of, in the order they are made."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from assay.api.agent_variant import AgentVariantSpec
from assay.api.evaluation_run import EvaluationRunSpec
from assay.api.evaluation_run_status import RunReason
from assay.api.ledgerfile import LedgerHeader, Percent, RetryLimits, TaskLine
from assay.api.tryspec import Deadlines
from assay.core.canonical import digest_of
from assay.core.classify import TryTerms
from assay.core.deviations import Asked, asked_deviations
from assay.core.record import AttemptKey

MAX_ATTEMPTS = 100_000
"""A larger plan is a mistake more often than a wish (cases.md E17)."""


class PlanRefused(Exception):
    """The run asks for what cannot or must not be done; `reason` and the message go into a condition."""

    def __init__(self, reason: RunReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class RunLedger:
    """A verified ledger of a run."""

    name: str
    uid: str
    digest: str
    header: LedgerHeader
    tasks: Mapping[str, TaskLine]
    runner_image: str | None = None
    """The benchmark's own runner image; None = the operator's."""
    archive_bucket: str | None = None
    """Bucket that the ledger was published in, with its task archives; None = the run's."""

    @property
    def plan_digest(self) -> str:
        """Digest of the plan in the header."""
        return digest_of(self.header.plan)


@dataclass(frozen=True, slots=True)
class RunVariant:
    """A resolved variant of a run."""

    name: str
    uid: str
    fingerprint: str
    spec: AgentVariantSpec


@dataclass(frozen=True, slots=True)
class RunPlan:
    """What a run consists of. `attempts` are in the order in which their first tries are made."""

    ledgers: Mapping[str, RunLedger]
    variants: Mapping[str, RunVariant]
    repetitions: Mapping[str, int]
    limits: Mapping[str, RetryLimits]
    attempts: tuple[AttemptKey, ...]
    pending_seconds: int
    deviations: tuple[str, ...] = ()
    """Where the run departs from its ledgers' plans: it is NonStandard."""

    def terms(self, key: AttemptKey) -> TryTerms:
        """What a try of the attempt is held against."""
        return TryTerms(
            self.pending_seconds, self.ledgers[key.ledger].digest, self.variants[key.variant].fingerprint
        )


def make_plan(
    spec: EvaluationRunSpec, run_uid: str, ledgers: Sequence[RunLedger], variants: Sequence[RunVariant]
) -> RunPlan:
    """The run's plan. Raises PlanRefused with the field at fault and the fix."""
    _refuse_unsupported(spec, variants)
    if spec.budget and spec.budget.usd and not spec.price_sheet:
        raise PlanRefused(
            RunReason.PLAN_VIOLATED,
            "spec.budget.usd is set and spec.priceSheet is not: without prices no cost is known and the "
            "bound could not be held; name a price sheet, or bound spec.budget.tokens",
        )
    for ledger in ledgers:
        _check_resources(ledger)
    repetitions = {ledger.name: spec.repetitions or ledger.header.plan.repetitions for ledger in ledgers}
    total = sum(len(ledger.tasks) * repetitions[ledger.name] for ledger in ledgers) * len(variants)
    if total > MAX_ATTEMPTS:
        raise PlanRefused(
            RunReason.TOO_MANY_ATTEMPTS,
            f"{total} attempts (tasks times variants times repetitions) are more than {MAX_ATTEMPTS}: "
            "split the run or lower spec.repetitions",
        )
    keys = (
        AttemptKey(ledger.name, task, variant.name, repetition)
        for ledger in ledgers
        for task in ledger.tasks
        for variant in variants
        for repetition in range(repetitions[ledger.name])
    )
    return RunPlan(
        ledgers={ledger.name: ledger for ledger in ledgers},
        variants={variant.name: variant for variant in variants},
        repetitions=repetitions,
        limits={ledger.name: _limits(spec, ledger) for ledger in ledgers},
        attempts=tuple(sorted(keys, key=lambda key: _place(run_uid, key))),
        pending_seconds=spec.deadlines.pending_seconds,
        deviations=tuple(_deviations(spec, ledgers, variants)),
    )


def deadlines(spec: EvaluationRunSpec, ledger: RunLedger, task: TaskLine) -> Deadlines:
    """Seconds of each phase of a task's tries: the run's own, else the task's times the plan's multiple."""
    multiple = ledger.header.plan.timeout_percent
    own, times = spec.deadlines, task.timeouts
    return Deadlines(
        setup_seconds=own.setup_seconds or percent(times.setup_seconds, multiple),
        agent_seconds=own.agent_seconds or percent(times.agent_seconds, multiple),
        verifier_seconds=own.verifier_seconds or percent(times.verifier_seconds, multiple),
        upload_seconds=own.upload_seconds,
    )


def percent(value: int, multiple: Percent) -> int:
    """`value` times `multiple` percent, rounded up to a whole number of at least 1."""
    return max(1, -(-value * multiple // 100))


def _place(run_uid: str, key: AttemptKey) -> bytes:
    """Sort key of the random order that the run's UID seeds: variants and ledgers interleave."""
    return hashlib.sha256(f"{run_uid}\0{key}".encode()).digest()


def _limits(spec: EvaluationRunSpec, ledger: RunLedger) -> RetryLimits:
    own = spec.retry_limits.model_dump(exclude_none=True) if spec.retry_limits else {}
    planned = ledger.header.plan.retry_limits
    for name, value in own.items():
        most = getattr(planned, name)
        if value > most:
            raise PlanRefused(
                RunReason.PLAN_VIOLATED,
                f"spec.retryLimits.{name} is {value}; the plan of ledger {ledger.name} allows at most {most}",
            )
    return planned.model_copy(update=own)


def _check_resources(ledger: RunLedger) -> None:
    multiples = ledger.header.plan.resources
    if multiples.request_percent > multiples.limit_percent:
        raise PlanRefused(
            RunReason.PLAN_VIOLATED,
            f"the plan of ledger {ledger.name} requests {multiples.request_percent} % and limits "
            f"{multiples.limit_percent} %: no pod may request more than its limit",
        )


def _refuse_unsupported(spec: EvaluationRunSpec, variants: Sequence[RunVariant]) -> None:
    unsupported = [
        *(
            f"AgentVariant {one.name}: spec.agent.bundleImage"
            for one in variants
            if one.spec.agent.bundle_image
        ),
        *(["spec.reuse"] if spec.reuse else []),
    ]
    if unsupported:
        raise PlanRefused(
            RunReason.UNSUPPORTED, f"not supported by this version: {', '.join(unsupported)}; leave it out"
        )


def _deviations(
    spec: EvaluationRunSpec, ledgers: Sequence[RunLedger], variants: Sequence[RunVariant]
) -> Iterator[str]:
    baseline = spec.baseline.name if spec.baseline else None
    fingerprint = next((one.fingerprint for one in variants if one.name == baseline), None)
    for ledger in ledgers:
        yield from asked_deviations(Asked(spec, ledger.name, ledger.header.plan, fingerprint))
