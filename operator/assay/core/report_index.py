"""The index rows of a report: one for each variant, over the components of the suite."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from assay.api import report as api
from assay.core import report_figures as to_api
from assay.core.collection import Pair
from assay.core.figures.holm import AdjustedP, holm
from assay.core.figures.index import ComponentPlan, ComponentResult, Index, IndexShift, index, index_shift
from assay.core.figures.paired import PairedShift
from assay.core.figures.rates import Rate, suite_rate
from assay.core.score_input import ScoreInput
from assay.core.usage import pooled_usage

if TYPE_CHECKING:
    from assay.core.report import RowFigures


@dataclass(frozen=True)
class IndexInput:
    """What index rows are made of."""

    given: ScoreInput
    figures: "Mapping[Pair, RowFigures]"
    shifts: Mapping[Pair, PairedShift]
    ranking_stops: bool

    def pairs(self, variant: str) -> dict[str, Pair]:
        """The variant's row of each component that has one."""
        pairs = {name: Pair(ledger, variant) for name, ledger in self.given.components.items()}
        return {name: pair for name, pair in pairs.items() if pair in self.figures}


def index_rows(given: IndexInput) -> list[api.IndexRow]:
    """The rows, the baseline first; ranks where ranking goes on."""
    suite = given.given.suite
    if suite is None:
        return []
    plan = {
        name: ComponentPlan(component.tasks, suite.rules.repetitions)
        for name, component in suite.components.items()
    }
    indices = {variant: index(plan, _results(given, variant)) for variant in given.given.variants}
    shifts = dict(_shifts(given, indices))
    family = {
        variant: found.sign_flip.p_value if found.sign_flip else None
        for variant, found in shifts.items()
        if not given.given.sentinel(variant)
    }
    adjusted = holm(family)
    ranks = {} if given.ranking_stops else _ranks(given, indices)
    return [
        _row(given, variant, found, shifts.get(variant), adjusted.get(variant), ranks.get(variant))
        for variant, found in indices.items()
    ]


def _results(given: IndexInput, variant: str) -> dict[str, ComponentResult]:
    results = {}
    for name, pair in given.pairs(variant).items():
        row = given.figures[pair]
        if row.error is not None:
            results[name] = ComponentResult(row.score, row.error, row.noise)
    return results


def _shifts(given: IndexInput, indices: Mapping[str, Index]) -> Iterator[tuple[str, IndexShift]]:
    baseline = given.given.baseline
    if baseline is None:
        return
    for variant, found in indices.items():
        if variant != baseline:
            pairs = given.pairs(variant)
            shifts = {name: given.shifts[pair] for name, pair in pairs.items() if pair in given.shifts}
            yield variant, index_shift(found, indices[baseline], shifts)


def _ranks(given: IndexInput, indices: Mapping[str, Index]) -> dict[str, int]:
    """1 + how many variants have a higher index; sentinels are not ranked."""
    values = {
        variant: found.value
        for variant, found in indices.items()
        if found.value is not None and not given.given.sentinel(variant)
    }
    return {variant: 1 + sum(other > value for other in values.values()) for variant, value in values.items()}


def _row(
    given: IndexInput,
    variant: str,
    found: Index,
    shift: IndexShift | None,
    adjusted: AdjustedP | None,
    rank: int | None,
) -> api.IndexRow:
    pairs = given.pairs(variant)
    rows = {name: given.figures[pair] for name, pair in pairs.items()}
    paired = [given.shifts[pair] for pair in pairs.values() if pair in given.shifts]
    baseline = given.given.baseline
    sentinel = given.given.sentinel(variant)
    return api.IndexRow(
        variant=variant,
        role="baseline" if variant == baseline else ("sentinel" if sentinel else "candidate"),
        value=to_api.number(found.value),
        reason=found.reason,
        components={
            name: to_api.number(rows[name].score.strict) if name in rows else None
            for name in _components(given)
        },
        tasks=found.tasks,
        attempts=found.attempts,
        sampling=to_api.interval(found.interval),
        error_reason=found.error_reason,
        repeat_noise=found.repeat_noise,
        shift=to_api.index_shift(
            shift,
            baseline or "",
            adjusted,
            sum(one.tasks for one in paired),
            sum(one.clusters for one in paired),
        )
        if shift
        else None,
        shift_reason=None if shift else ("this is the baseline" if baseline else "there is no baseline"),
        refusal=_rate(given, {name: row.rates.refusal for name, row in rows.items()}),
        fallback=_rate(given, {name: row.rates.fallback for name, row in rows.items()}),
        blocked=_rate(given, {name: row.rates.blocked for name, row in rows.items()}),
        pooled=to_api.usage(pooled_usage([row.usage for row in rows.values()])),
        rank=rank,
    )


def _components(given: IndexInput) -> list[str]:
    suite = given.given.suite
    return list(suite.components) if suite else []


def _rate(given: IndexInput, rates: dict[str, Rate]) -> api.SuiteRate:
    missing = {name: Rate(0, 0, "no result") for name in _components(given) if name not in rates}
    return to_api.suite_rate(suite_rate({**rates, **missing}))
