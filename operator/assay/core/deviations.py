"""Where a run departs from the plan of its ledger, field by field: it is NonStandard in each of them."""

from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass

from assay.api.evaluation_run import EvaluationRunSpec
from assay.api.ledger_plan import Plan

NON_STANDARD = "NonStandard"
"""What a run is called that departs from a plan."""
PRIMARY_METRIC = "reward"
"""What every score is made of; no run can be measured by another figure of the verifier."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What is known of a run before its first Job, on one ledger."""

    spec: EvaluationRunSpec
    ledger: str
    plan: Plan
    baseline_fingerprint: str | None
    """Of the variant that the run names as baseline; None = it names none."""


@dataclass(frozen=True, slots=True)
class ReadBy:
    """A judge as the records of a run name it."""

    criterion: str
    model: str | None
    prompt_digest: str | None


@dataclass(frozen=True, slots=True)
class Measured:
    """What is known once a run's records are scored, on one ledger."""

    ledger: str
    plan: Plan
    judges: Set[ReadBy]
    sheet_digest: str | None
    """Of the price sheet that costs are made with; None = none."""


def asked_deviations(asked: Asked) -> Iterator[str]:
    """Deviations that a run's resource asks for, each beginning with the plan's field."""
    for rule in ASKED.values():
        yield from rule(asked)


def measured_deviations(measured: Measured) -> Iterator[str]:
    """Deviations that records and price sheet show, each beginning with the plan's field."""
    for rule in MEASURED.values():
        yield from rule(measured)


def _primary_metric(asked: Asked) -> Iterator[str]:
    if asked.plan.primary_metric != PRIMARY_METRIC:
        yield (
            f"primaryMetric: scores are made of {PRIMARY_METRIC}; ledger {asked.ledger} plans "
            f"{asked.plan.primary_metric}"
        )


def _repetitions(asked: Asked) -> Iterator[str]:
    own, planned = asked.spec.repetitions, asked.plan.repetitions
    if own not in (None, planned):
        yield f"repetitions: spec.repetitions is {own}; ledger {asked.ledger} plans {planned}"


def _timeout_percent(asked: Asked) -> Iterator[str]:
    own = asked.spec.deadlines
    for name in ("setup_seconds", "agent_seconds", "verifier_seconds"):
        if (seconds := getattr(own, name)) is not None:
            phase = name.removesuffix("_seconds")
            yield (
                f"timeoutPercent: spec.deadlines.{phase}Seconds is {seconds} for every task; ledger "
                f"{asked.ledger} plans {asked.plan.timeout_percent} % of each task's own"
            )


def _retry_limits(asked: Asked) -> Iterator[str]:
    own = asked.spec.retry_limits.model_dump(exclude_none=True) if asked.spec.retry_limits else {}
    for name, value in own.items():
        planned = getattr(asked.plan.retry_limits, name)
        if value != planned:
            yield (
                f"retryLimits.{name}: spec.retryLimits.{name} is {value}; ledger {asked.ledger} plans "
                f"{planned}"
            )


def _baseline(asked: Asked) -> Iterator[str]:
    planned = asked.plan.baseline
    if planned is None or asked.baseline_fingerprint == planned.fingerprint:
        return
    if asked.spec.baseline is None:
        yield f"baseline: the run has none; ledger {asked.ledger} plans {planned.name}"
        return
    yield (
        f"baseline: {asked.spec.baseline.name} has fingerprint {asked.baseline_fingerprint}; ledger "
        f"{asked.ledger} plans {planned.name} of {planned.fingerprint}"
    )


def _judges(measured: Measured) -> Iterator[str]:
    planned = {(judge.criterion, judge.model, judge.prompt_digest) for judge in measured.plan.judges}
    criteria = {criterion for criterion, _, _ in planned}
    for one in sorted(measured.judges, key=str):
        if one.criterion in criteria and (one.criterion, one.model, one.prompt_digest) not in planned:
            yield (
                f"judges: {one.criterion} was read by {one.model or 'an unknown model'} with prompt "
                f"{one.prompt_digest or 'unknown'}; ledger {measured.ledger} plans another judge"
            )


def _price_policy(measured: Measured) -> Iterator[str]:
    planned = measured.plan.price_policy.sheet_digest
    if planned is not None and measured.sheet_digest is not None and planned != measured.sheet_digest:
        yield (
            f"pricePolicy.sheetDigest: costs are of sheet {measured.sheet_digest}; ledger {measured.ledger} "
            f"plans {planned}"
        )


ASKED: Mapping[str, Callable[[Asked], Iterator[str]]] = {
    "primary_metric": _primary_metric,
    "repetitions": _repetitions,
    "timeout_percent": _timeout_percent,
    "retry_limits": _retry_limits,
    "baseline": _baseline,
}
"""Fields of the plan that a run's resource can depart from."""
MEASURED: Mapping[str, Callable[[Measured], Iterator[str]]] = {
    "judges": _judges,
    "price_policy": _price_policy,
}
"""Fields that only records and price sheet can depart from."""
HELD: Mapping[str, str] = {
    "resources": "pods are rendered from it, and one that was changed is PodMutated",
    "rate_limited_after_output": "the outcome table reads it from the ledger",
    "verifier_mode": "a ledger with a task of another mode is no valid file",
    "exclusions": "scoring reads them from the ledger",
    "drift_alpha": "the drift gate reads it from the ledger",
    "refusals": "scoring reads it from the ledger",
}
"""Fields that no run can depart from, and what holds it to them."""
