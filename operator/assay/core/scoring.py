"""The vector in a run's status: the same figures as in reports, of what is recorded so far."""

from collections.abc import Iterable
from decimal import ROUND_HALF_EVEN, Decimal
from fractions import Fraction
from itertools import chain, repeat

from assay.api import report as api
from assay.api.evaluation_run_status import MEAN_LENGTH, IndexRow, Mean, VectorRow
from assay.core.figures.known_means import KnownSum
from assay.core.figures.scores import mean_of_means
from assay.core.outcomes import TABLE
from assay.core.row_sums import RowSums


def decimal_string(value: Fraction | float | Decimal, places: int = 6) -> str:
    """A number as the API writes it: at most `places` places, no exponent, no trailing zeros."""
    exact = Fraction(value)
    number = Decimal(exact.numerator) / Decimal(exact.denominator)
    text = format(number.quantize(Decimal(1).scaleb(-places), ROUND_HALF_EVEN), "f")
    short = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if short in ("", "-0") else short


def _mean(value: Fraction | float | Decimal, n: int) -> Mean:
    """The mean with as many places as the status has room for."""
    whole = len(decimal_string(value, 0))
    return Mean(mean=decimal_string(value, max(0, min(6, MEAN_LENGTH - 1 - whole))), n=n)


def interval_string(found: api.Interval | None) -> str | None:
    """Low and high end, as the status has them."""
    return f"{decimal_string(found.low, 4)} {decimal_string(found.high, 4)}" if found else None


def index_rows(report: api.Report) -> list[IndexRow]:
    """The index of every variant as the status has it."""
    return [
        IndexRow(
            variant=row.variant,
            value=_text(row.value),
            interval=interval_string(row.sampling),
            shift=_shift(row.shift),
        )
        for row in report.index
    ]


def _shift(found: api.ShiftFigures | None) -> str | None:
    return decimal_string(found.shift, 4) if found and found.shift is not None else None


def vector_row(ledger: str, variant: str, sums: RowSums, tasks: int, repetitions: int) -> VectorRow:
    """The row of (ledger, variant): so many tasks are planned, each with so many attempts."""
    planned = tasks * repetitions
    strict, valid = _scores(sums, tasks, repetitions)
    return VectorRow(
        ledger=ledger,
        variant=variant,
        planned=planned,
        valid=sums.valid,
        coverage=decimal_string(Fraction(sums.valid, planned) if planned else Fraction()),
        score_strict=_text(strict),
        score_valid=_text(valid),
        input_tokens=_known(sums.input),
        cache_read_tokens=_known(sums.cache_read),
        cache_write_tokens=_known(sums.cache_write),
        output_tokens=_known(sums.output),
        agent_seconds=_known(sums.agent_seconds),
        total_seconds=_known(sums.total_seconds),
        tries=sums.outcomes.total(),
        infra_errors=sum(n for outcome, n in sums.outcomes.items() if TABLE[outcome].infrastructure),
        refusals=sum(n for outcome, n in sums.outcomes.items() if TABLE[outcome].refusal),
        flagged=sums.flagged,
        harness_commit=_same(sums.commits),
        harbor_version=_same(sums.versions),
    )


def with_report(live: VectorRow, row: api.Row) -> VectorRow:
    """The row with what the report made of the attempts: the plan's and the suite's rules, error and costs.

    Everything else stands in the report alone: a status of 100 rows has no room for it (cases.md BAR 8).
    """
    cost = row.usage.cost_usd
    return live.model_copy(
        update={
            "planned": row.score.attempts_planned,
            "valid": row.score.attempts_valid,
            "coverage": decimal_string(row.score.coverage),
            "score_strict": _text(row.score.strict),
            "score_valid": _text(row.score.valid),
            "score_interval": interval_string(row.sampling.interval if row.sampling else None),
            "shift": _shift(row.shift),
            "cost_usd": _mean(cost.mean, cost.n) if cost.mean is not None else None,
        }
    )


def _scores(sums: RowSums, tasks: int, repetitions: int) -> tuple[Fraction | None, Fraction | None]:
    """The strict and the valid score so far."""
    if not sums.valid:
        return None, None
    missing = repeat((0.0,) * repetitions, tasks - len(sums.rewards))
    padded = (found + (0.0,) * (repetitions - len(found)) for found in sums.rewards.values())
    return mean_of_means(chain(padded, missing)), mean_of_means(sums.rewards.values())


def _known(found: KnownSum) -> Mean | None:
    return None if found.mean is None else _mean(found.mean, found.n)


def _text(value: Fraction | float | None) -> str | None:
    return None if value is None else decimal_string(value)


def _same(values: Iterable[str]) -> str | None:
    distinct = set(values)
    return next(iter(distinct)) or None if len(distinct) == 1 else None
