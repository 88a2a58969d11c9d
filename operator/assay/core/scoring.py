"""The vector in a run's status: the same figures as in reports, of what is recorded so far."""

from collections.abc import Iterable, Mapping, Sequence
from decimal import ROUND_HALF_EVEN, Decimal
from fractions import Fraction

from assay.api import report as api
from assay.api.evaluation_run_status import Mean, VectorRow
from assay.core.attempts import AttemptState, Scored
from assay.core.figures.attempts import collect
from assay.core.figures.known_means import known_mean
from assay.core.figures.observations import LedgerTasks, Observation, TaskFacts
from assay.core.figures.scores import Score, score
from assay.core.record import AttemptKey, TryRecord
from assay.core.record_totals import tokens_of

PIN_EXTERNAL = "PinExternal"
"""A note of the runner about its own image: it says nothing about the try, so it does not flag one."""
_PLACES = Decimal("0.000001")


def decimal_string(value: Fraction | float | Decimal) -> str:
    """A non-negative number as the API writes it: at most six places, no exponent, no trailing zeros."""
    exact = Fraction(value)
    number = (Decimal(exact.numerator) / Decimal(exact.denominator)).quantize(_PLACES, ROUND_HALF_EVEN)
    text = format(number, "f")
    return (text.rstrip("0").rstrip(".") or "0") if "." in text else text


def mean_of(values: Iterable[float | None]) -> Mean | None:
    """Mean of the known values with their number; None where none is known."""
    found = known_mean(values)
    return None if found.mean is None else Mean(mean=decimal_string(found.mean), n=found.n)


def vector_row(
    ledger: str,
    variant: str,
    ledger_digest: str,
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
        ledger_digest=ledger_digest,
    )


def with_report(live: VectorRow, row: api.Row) -> VectorRow:
    """The row with what the report made of the attempts: the plan's and the suite's rules, and costs.

    Errors and shifts stand in the report alone: a status of 100 rows has no room for them (cases.md BAR 8).
    """
    cost = row.usage.cost_usd
    return live.model_copy(
        update={
            "planned": row.score.attempts_planned,
            "valid": row.score.attempts_valid,
            "coverage": decimal_string(row.score.coverage),
            "score_strict": _text(row.score.strict),
            "score_valid": _text(row.score.valid),
            "cost_usd": Mean(mean=decimal_string(cost.mean), n=cost.n) if cost.mean is not None else None,
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
