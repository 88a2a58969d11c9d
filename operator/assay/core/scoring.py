"""The vector in a run's status: the same figures as in reports, of what is recorded so far."""

from collections.abc import Iterable, Mapping, Sequence
from decimal import ROUND_HALF_EVEN, Decimal
from fractions import Fraction

from assay.api import report as api
from assay.api.evaluation_run_status import MEAN_LENGTH, IndexRow, Mean, VectorRow
from assay.api.evidence import PIN_EXTERNAL
from assay.core.attempts import AttemptState, Scored
from assay.core.figures.attempts import collect
from assay.core.figures.known_means import known_mean
from assay.core.figures.observations import LedgerTasks, Observation, TaskFacts
from assay.core.figures.scores import Score, score
from assay.core.record import AttemptKey, TryRecord
from assay.core.record_totals import tokens_of


def decimal_string(value: Fraction | float | Decimal, places: int = 6) -> str:
    """A number as the API writes it: at most `places` places, no exponent, no trailing zeros."""
    exact = Fraction(value)
    number = Decimal(exact.numerator) / Decimal(exact.denominator)
    text = format(number.quantize(Decimal(1).scaleb(-places), ROUND_HALF_EVEN), "f")
    short = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if short in ("", "-0") else short


def mean_of(values: Iterable[float | None]) -> Mean | None:
    """Mean of the known values with their number; None where none is known."""
    found = known_mean(values)
    return None if found.mean is None else _mean(found.mean, found.n)


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


def vector_row(
    ledger: str,
    variant: str,
    states: Mapping[AttemptKey, AttemptState],
    tries: Sequence[TryRecord],
) -> VectorRow:
    """The row of (ledger, variant) from the states of its attempts, all planned ones, and all its tries."""
    retained = [state.retained for state in states.values() if isinstance(state, Scored)]
    found = _score(ledger, variant, states)
    tokens = [tokens_of(record.tokens) for record in retained]
    return VectorRow(
        ledger=ledger,
        variant=variant,
        planned=len(states),
        valid=len(retained),
        coverage=decimal_string(Fraction(len(retained), len(states)) if states else Fraction()),
        score_strict=_text(found.strict) if found else None,
        score_valid=_text(found.valid) if found else None,
        input_tokens=mean_of(one.input for one in tokens),
        cache_read_tokens=mean_of(one.cache_read for one in tokens),
        cache_write_tokens=mean_of(one.cache_write for one in tokens),
        output_tokens=mean_of(one.output for one in tokens),
        agent_seconds=mean_of(record.agent_seconds for record in retained),
        total_seconds=mean_of(record.total_seconds for record in retained),
        tries=len(tries),
        infra_errors=sum(record.rule.infrastructure for record in tries),
        refusals=sum(record.rule.refusal for record in tries),
        flagged=sum(any(flag != PIN_EXTERNAL for flag in record.flags) for record in retained),
        harness_commit=_same(record.harness_commit for record in retained),
        harbor_version=_same(record.harbor_version for record in retained),
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


def _score(ledger: str, variant: str, states: Mapping[AttemptKey, AttemptState]) -> Score | None:
    """The score of the attempts so far; clusters do not matter for what the status shows of it."""
    if not states:
        return None
    tasks = dict.fromkeys(key.task for key in states)
    repetitions = 1 + max(key.repetition for key in states)
    facts = LedgerTasks(ledger, tuple(TaskFacts(task, task) for task in tasks), repetitions)
    observations = (
        Observation(key.task, variant, key.repetition, state.score)
        for key, state in states.items()
        if isinstance(state, Scored)
    )
    return score(collect(facts, observations, [variant])[variant])


def _text(value: Fraction | float | None) -> str | None:
    return None if value is None else decimal_string(value)


def _same(values: Iterable[str]) -> str | None:
    distinct = set(values)
    return next(iter(distinct)) or None if len(distinct) == 1 else None
