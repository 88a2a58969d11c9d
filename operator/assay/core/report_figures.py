"""From the figures' exact values to the report's fields."""

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

from assay.api import report as api
from assay.api.attempt_record import LedgerFacts, RunRecord
from assay.core.figures import index as index_figures
from assay.core.figures.clustered import Interval, SamplingError
from assay.core.figures.drift import Drift
from assay.core.figures.holm import AdjustedP
from assay.core.figures.known_means import KnownMean
from assay.core.figures.paired import PairedShift
from assay.core.figures.passk import PassK
from assay.core.figures.rates import Rate, SuiteRate
from assay.core.figures.repeat_noise import RepeatNoise
from assay.core.figures.scores import GroupScore, Score
from assay.core.figures.signflip import SignFlipTest
from assay.core.freeze_order import FreezeTimes, freeze_problems
from assay.core.record_totals import TOKEN_KINDS, Replaced
from assay.core.usage import UsageFigures

_CENT_PLACES = Decimal("0.000001")


def number(value: Fraction | float | None) -> float | None:
    """The nearest double of an exact value."""
    return None if value is None else float(value)


def usd(value: Fraction | None) -> Decimal | None:
    """USD to a millionth, as decimal."""
    if value is None:
        return None
    exact = Decimal(value.numerator) / Decimal(value.denominator)
    return exact.quantize(_CENT_PLACES).normalize() + 0


def score(found: Score) -> api.Score:
    """The score with its denominators."""
    return api.Score(
        strict=number(found.strict),
        valid=number(found.valid),
        cluster_mean=number(found.cluster_mean),
        first_try_strict=number(found.first_try_strict),
        first_try_valid=number(found.first_try_valid),
        first_try_reason=found.first_try_reason,
        coverage=float(found.coverage),
        tasks=found.tasks,
        tasks_valid=found.tasks_valid,
        clusters=found.clusters,
        attempts_planned=found.attempts_planned,
        attempts_valid=found.attempts_valid,
        first_tries_valid=found.first_tries_valid,
        reason=found.reason,
    )


def group(found: GroupScore) -> api.GroupScore:
    """The score of one group of tasks."""
    return api.GroupScore(label=found.label, value=found.value, score=score(found.score))


def interval(found: Interval | None) -> api.Interval | None:
    """An interval."""
    return None if found is None else api.Interval.model_validate(found, from_attributes=True)


def sampling(found: SamplingError) -> api.SamplingError:
    """Both lines of the sampling error."""
    return api.SamplingError(
        interval=interval(found.interval),
        cr1_interval=interval(found.cr1_interval),
        iid=found.iid,
        cr1=found.cr1,
        cr2=found.cr2,
        tasks=found.tasks,
        clusters=found.clusters,
        reason=found.reason,
    )


def noise(found: RepeatNoise) -> api.RepeatNoise:
    """Repeat noise."""
    return api.RepeatNoise.model_validate(found, from_attributes=True)


def sign_flip(found: SignFlipTest | None, adjusted: AdjustedP | None) -> api.SignFlip | None:
    """The exact test with Holm's adjustment."""
    if found is None:
        return None
    return api.SignFlip(
        p_value=found.p_value,
        adjusted_p=adjusted.adjusted if adjusted else None,
        family=adjusted.family if adjusted else 0,
        clusters=found.clusters,
        clusters_differing=found.clusters_differing,
        smallest_possible_p=found.smallest_possible_p,
        reason=found.reason,
    )


def shift(found: PairedShift, baseline: str, adjusted: AdjustedP | None) -> api.ShiftFigures:
    """The paired shift on one ledger."""
    return api.ShiftFigures(
        baseline=baseline,
        shift=float(found.shift),
        sampling=interval(found.error.interval),
        repeat_noise=found.repeat_noise.standard_error,
        sign_flip=sign_flip(found.sign_flip, adjusted),
        minimum_detectable_effect=found.minimum_detectable_effect,
        tasks=found.tasks,
        clusters=found.clusters,
        reason=None,
        error_reason=found.reason,
    )


def index_shift(
    found: index_figures.IndexShift, baseline: str, adjusted: AdjustedP | None, tasks: int, clusters: int
) -> api.ShiftFigures:
    """The shift of the index."""
    return api.ShiftFigures(
        baseline=baseline,
        shift=number(found.shift),
        sampling=interval(found.interval),
        repeat_noise=found.repeat_noise,
        sign_flip=sign_flip(found.sign_flip, adjusted),
        minimum_detectable_effect=found.minimum_detectable_effect,
        tasks=tasks,
        clusters=clusters,
        reason=found.reason,
        error_reason=found.error_reason,
    )


def drift(ledger: str, found: Drift, shifts: AdjustedP | None, changes: AdjustedP | None) -> api.Drift:
    """The baseline's drift on one ledger."""
    return api.Drift(
        ledger=ledger,
        shift=number(found.shift),
        repeat_noise=found.repeat_noise,
        p_shift=found.p_shift,
        p_any=found.p_any,
        adjusted_p_shift=shifts.adjusted if shifts else None,
        adjusted_p_any=changes.adjusted if changes else None,
        detectable=found.detectable.size,
        tasks=found.tasks,
        tasks_left_out=found.tasks_left_out,
        attempts_reference=found.attempts[0],
        attempts=found.attempts[1],
        reason=found.reason or found.detectable.reason,
    )


def rate(found: Rate) -> api.Rate:
    """A rate with its count and n."""
    return api.Rate(value=number(found.value), count=found.count, n=found.n, reason=found.reason)


def suite_rate(found: SuiteRate) -> api.SuiteRate:
    """A rate over a suite."""
    return api.SuiteRate(value=number(found.value), attempts=found.attempts, reason=found.reason)


def pass_k(found: PassK) -> api.PassK:
    """pass@k and pass^k."""
    return api.PassK(
        k=found.k,
        pass_at=number(found.pass_at),
        pass_hat=number(found.pass_hat),
        pass_at_strict=number(found.pass_at_strict),
        pass_hat_strict=number(found.pass_hat_strict),
        tasks=found.tasks,
        attempts_valid=found.attempts_valid,
        fewest_valid=found.fewest_valid,
        reason=found.reason,
    )


def known(found: KnownMean) -> api.KnownMean:
    """A mean over known values."""
    return api.KnownMean.model_validate(_known(found, number))


def usage(found: UsageFigures) -> api.Usage:
    """What the retained tries took."""
    cost = _cost(found.cost_usd)
    gaps = "; ".join(sorted(found.cost_gaps)[:5])
    return api.Usage(
        tokens=api.TokenMeans.model_validate({kind: known(one) for kind, one in found.tokens.items()}),
        cost_usd=cost.model_copy(update={"reason": gaps or cost.reason}),
        agent_seconds=known(found.agent_seconds),
        total_seconds=known(found.total_seconds),
    )


def replaced(found: Replaced) -> api.ReplacedTries:
    """What the tries that did not count took."""
    return api.ReplacedTries(
        tries=found.tries,
        cost_usd=_cost(_from_sums(Fraction(found.cost), found.cost_known, found.tries)),
        total_seconds=known(_from_sums(found.seconds, found.seconds_known, found.tries)),
        tokens=api.TokenMeans.model_validate(
            {
                kind: known(_from_sums(Fraction(found.tokens[kind]), found.tokens_known[kind], found.tries))
                for kind in TOKEN_KINDS
            }
        ),
    )


def _cost(found: KnownMean) -> api.KnownCost:
    return api.KnownCost.model_validate(_known(found, usd))


def _known(found: KnownMean, written: Callable[[Fraction | None], float | Decimal | None]) -> dict[str, Any]:
    return {
        "mean": written(found.mean),
        "total": written(found.total),
        "total_is_lower_bound": found.total_is_lower_bound,
        "n": found.n,
        "planned": found.planned,
        "reason": found.reason,
    }


def _from_sums(total: Fraction, n: int, planned: int) -> KnownMean:
    if not n:
        return KnownMean(None, None, 0, planned, "nothing was replaced" if not planned else "none is known")
    return KnownMean(total / n, total, n, planned)


def freeze_order(run: RunRecord, facts: LedgerFacts, times: FreezeTimes) -> api.FreezeOrder:
    """The order of times that a run's evidence shows for a ledger."""
    return api.FreezeOrder(
        run=run.name,
        frozen_at=times.frozen_at,
        recorded_at=times.recorded_at,
        recorded_digest=times.recorded_digest,
        first_call_at=times.first_call_at,
        calls_undated=times.calls_undated,
        problems=freeze_problems(facts.digest, times),
    )
