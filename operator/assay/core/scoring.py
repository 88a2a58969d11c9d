"""The score vector of a variant on a ledger. A missing reward is neither 0 nor dropped (cases.md BAR 1)."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from decimal import ROUND_HALF_EVEN, Decimal
from fractions import Fraction

from assay.api.evaluation_run_status import Mean, VectorRow
from assay.core.attempts import AttemptState, Scored
from assay.core.record import AttemptKey, TryRecord

_PLACES = Decimal("0.000001")

PIN_EXTERNAL = "PinExternal"
"""A note of the runner about its own image: it says nothing about the try, so it does not flag one."""


def decimal_string(value: Fraction | float) -> str:
    """A non-negative number as the API writes it: at most six places, no exponent, no trailing zeros."""
    exact = Fraction(value)
    number = (Decimal(exact.numerator) / Decimal(exact.denominator)).quantize(_PLACES, ROUND_HALF_EVEN)
    text = format(number, "f")
    return (text.rstrip("0").rstrip(".") or "0") if "." in text else text


def mean_of(values: Iterable[float | None]) -> Mean | None:
    """Mean of the known values with their number; None where none is known."""
    known = [Fraction(value) for value in values if value is not None]
    return Mean(mean=decimal_string(sum(known, Fraction()) / len(known)), n=len(known)) if known else None


def score(states: Mapping[AttemptKey, AttemptState], *, missing_is_zero: bool) -> Fraction | None:
    """Mean over tasks of each task's mean; None where no attempt has a score.

    With `missing_is_zero` every planned attempt counts, one without a score as 0 (strict). Without, only
    valid attempts count and a task without any is left out.
    """
    tasks: dict[str, list[Fraction | None]] = defaultdict(list)
    for key, state in states.items():
        tasks[key.task].append(Fraction(state.score) if isinstance(state, Scored) else None)
    if not any(value is not None for values in tasks.values() for value in values):
        return None
    means = []
    for values in tasks.values():
        counted = [value or Fraction() for value in values if missing_is_zero or value is not None]
        if counted:
            means.append(sum(counted, Fraction()) / len(counted))
    return sum(means, Fraction()) / len(means)


def vector_row(
    ledger: str,
    variant: str,
    ledger_digest: str,
    states: Mapping[AttemptKey, AttemptState],
    tries: Sequence[TryRecord],
) -> VectorRow:
    """The row of (ledger, variant) from the states of its attempts, all planned ones, and all its tries."""
    retained = [state.retained for state in states.values() if isinstance(state, Scored)]
    strict, valid = score(states, missing_is_zero=True), score(states, missing_is_zero=False)
    tokens = [record.tokens for record in retained]
    return VectorRow(
        ledger=ledger,
        variant=variant,
        planned=len(states),
        valid=len(retained),
        coverage=decimal_string(Fraction(len(retained), len(states)) if states else Fraction()),
        score_strict=None if strict is None else decimal_string(strict),
        score_valid=None if valid is None else decimal_string(valid),
        input_tokens=mean_of(one.input for one in tokens),
        cache_read_tokens=mean_of(one.cache_read for one in tokens),
        cache_write_tokens=mean_of(_sum_known(one.cache_write_5m, one.cache_write_1h) for one in tokens),
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


def _sum_known(*values: int | None) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _same(values: Iterable[str]) -> str | None:
    distinct = set(values)
    return next(iter(distinct)) or None if len(distinct) == 1 else None
