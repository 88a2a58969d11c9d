"""Makes the report: every figure of every row, with its companions, from collected records."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from assay.api import report as api
from assay.api.ledger_history import EarlierRun
from assay.core import report_figures as to_api
from assay.core.collection import Collection, Pair, PairRecords, collector_paused, resource_digest
from assay.core.figures.attempts import VariantAttempts
from assay.core.figures.clustered import SamplingError, sampling_error
from assay.core.figures.drift_gate import DriftGate
from assay.core.figures.holm import AdjustedP, holm
from assay.core.figures.paired import PairedShift, paired_shift
from assay.core.figures.passk import pass_k
from assay.core.figures.rates import AttemptRates, Rate, attempt_rates
from assay.core.figures.repeat_noise import RepeatNoise, repeat_noise
from assay.core.figures.scores import Label, Score, clusters_of, score, scores_by, strict_scores
from assay.core.freeze_order import freeze_times
from assay.core.observe import attempts_of
from assay.core.outcomes import TABLE
from assay.core.publishable import reasons_against
from assay.core.record_totals import Kept, Replaced
from assay.core.report_drift import baseline_drift
from assay.core.report_index import IndexInput, index_rows
from assay.core.score_input import ReportRefusedError, ScoredLedger, ScoreInput
from assay.core.stated_facts import stated_facts
from assay.core.usage import UsageFigures, usage_of

LABELS: tuple[Label, ...] = ("category", "language", "difficulty")
MAX_K = 5
"""Largest k of pass@k that is shown."""


@dataclass(frozen=True, slots=True)
class RowFigures:
    """The exact figures of one row."""

    attempts: VariantAttempts
    score: Score
    error: SamplingError | None
    noise: RepeatNoise
    rates: AttemptRates
    usage: UsageFigures


def make_report(given: ScoreInput, code: api.CodeVersion) -> api.Report:
    """The report. Raises ReportRefusedError and FiguresError for input that cannot be scored."""
    with collector_paused():
        return _make_report(given, code)


def _make_report(given: ScoreInput, code: api.CodeVersion) -> api.Report:
    if not given.collection.pairs:
        raise ReportRefusedError("the files hold no record; give the attempts.jsonl of a run or an import")
    _check_baseline(given)
    figures = _figures(given)
    shifts = _shifts(given, figures)
    attempts = {pair: row.attempts for pair, row in figures.items()}
    drifts = baseline_drift(given, attempts)
    gate = drifts.gate(given.drift_threshold)
    reasons = reasons_against(given, attempts, gate)
    indices = index_rows(IndexInput(given, figures, shifts, gate.ranking_stops)) if given.suite else []
    return api.Report(
        verdict="NOT PUBLISHABLE" if reasons else "PUBLISHABLE",
        reasons_against=reasons,
        schema_version=1,
        code=code,
        runs=sorted(given.runs.values(), key=lambda run: run.name),
        records=given.collection.records,
        baseline=given.baseline,
        suite=given.suite.label if given.suite else None,
        ledgers=[_ledger(given, ledger) for ledger in given.ledgers.values()],
        prices=_prices(given.collection),
        vector=_rows(given, figures, shifts),
        index=indices,
        ranking=_ranking(given, gate),
        drift=[
            to_api.drift(name, found, gate.shift.get(name), gate.any_change.get(name))
            for name, found in drifts.found.items()
        ],
        references=[one for _, one in sorted(given.references.items())],
        earlier_runs=_earlier_runs(given),
        exclusions=_exclusions(given, figures),
        first_start=_first_start(given.collection),
    )


def _check_baseline(given: ScoreInput) -> None:
    if given.baseline is not None and given.baseline not in given.variants:
        raise ReportRefusedError(
            f"baseline {given.baseline} has no record; the variants are {', '.join(given.variants)}"
        )


def refuse_other_prices(collection: Collection) -> None:
    """Raises ReportRefusedError for a price sheet that has none of the models that were called.

    For people who chose a sheet. A run goes by the one that it pinned: its costs are unknown then.
    """
    if collection.prices is None or not collection.called_models:
        return
    if not collection.called_models & collection.prices.models:
        raise ReportRefusedError(
            f"the price sheet prices {', '.join(sorted(collection.prices.models))}, the records called "
            f"{', '.join(sorted(collection.called_models))}: make the sheet for these models with "
            "`assay prices build`"
        )


def _figures(given: ScoreInput) -> dict[Pair, RowFigures]:
    figures = {}
    for name, ledger in given.ledgers.items():
        clusters = clusters_of(ledger.tasks.tasks)
        for variant in _variants_on(given, name):
            pair = Pair(name, variant)
            records = given.collection.pairs.get(pair)
            attempts = attempts_of(pair, records, ledger.tasks, given.worth_on(name))
            found = score(attempts)
            figures[pair] = RowFigures(
                attempts=attempts,
                score=found,
                error=sampling_error(strict_scores(attempts), clusters) if found.strict is not None else None,
                noise=repeat_noise(attempts),
                rates=attempt_rates(attempts),
                usage=usage_of(_kept(records, attempts)),
            )
    return figures


def _kept(records: PairRecords | None, attempts: VariantAttempts) -> list[Kept]:
    """The retained tries that have a result by the plan."""
    if records is None:
        return []
    valid = {(one.task, one.repetition) for one in attempts.retained}
    return [one.kept for key, one in records.attempts.items() if one.kept and key in valid]


def _variants_on(given: ScoreInput, ledger: str) -> list[str]:
    planned = {
        variant
        for run in given.runs.values()
        if any(one.name == ledger for one in run.ledgers)
        for variant in run.variants
    }
    return [
        name for name in given.variants if name in planned or Pair(ledger, name) in given.collection.pairs
    ]


def role(given: ScoreInput, variant: str) -> api.Role:
    """What a variant is in the comparison; a sentinel that is named as baseline is the baseline."""
    if variant == given.baseline:
        return "baseline"
    return "sentinel" if given.sentinel(variant) else "candidate"


def _shifts(given: ScoreInput, figures: Mapping[Pair, RowFigures]) -> dict[Pair, PairedShift]:
    """The paired shift of every row against the baseline of its ledger, where both have a score."""
    found = {}
    for pair, row in figures.items():
        base = figures.get(Pair(pair.ledger, given.baseline)) if given.baseline else None
        if base is None or pair.variant == given.baseline:
            continue
        if row.score.strict is not None and base.score.strict is not None:
            found[pair] = paired_shift(row.attempts, base.attempts)
    return found


def _rows(
    given: ScoreInput, figures: Mapping[Pair, RowFigures], shifts: Mapping[Pair, PairedShift]
) -> list[api.Row]:
    rows = []
    for name in given.ledgers:
        candidates = {
            pair.variant: shifts[pair].sign_flip.p_value if pair in shifts else None
            for pair in figures
            if pair.ledger == name and role(given, pair.variant) == "candidate"
        }
        adjusted = holm(candidates)
        rows += [
            _row(given, pair, row, shifts.get(pair), adjusted.get(pair.variant))
            for pair, row in figures.items()
            if pair.ledger == name
        ]
    return rows


def _row(
    given: ScoreInput, pair: Pair, row: RowFigures, shift: PairedShift | None, adjusted: AdjustedP | None
) -> api.Row:
    records = given.collection.pairs.get(pair)
    largest_k = min(MAX_K, row.attempts.ledger.repetitions)
    return api.Row(
        ledger=pair.ledger,
        ledger_digest=given.ledgers[pair.ledger].digest,
        variant=pair.variant,
        role=role(given, pair.variant),
        run=records.run if records else "none",
        score=to_api.score(row.score),
        sampling=to_api.sampling(row.error) if row.error else None,
        repeat_noise=to_api.noise(row.noise),
        pass_k=[to_api.pass_k(pass_k(row.attempts, k)) for k in range(1, largest_k + 1)],
        groups=[
            to_api.group(found)
            for label in LABELS
            for groups in [scores_by(row.attempts, label)]
            if any(found.value is not None for found in groups)
            for found in groups
        ],
        shift=to_api.shift(shift, given.baseline or "", adjusted) if shift else None,
        shift_reason=None if shift else _no_shift(given, pair, row),
        rates=_rates(row, records),
        usage=to_api.usage(row.usage),
        replaced=to_api.replaced(records.replaced if records else Replaced()),
        tries=records.tries if records else 0,
        outcomes={outcome: records.outcomes[outcome] for outcome in sorted(records.outcomes)}
        if records
        else {},
        harness=_harness(records),
        task_rewards={task: list(row.attempts.valid_rewards(task)) for task in row.attempts.by_task},
    )


def _no_shift(given: ScoreInput, pair: Pair, row: RowFigures) -> str:
    if given.baseline is None:
        return "there is no baseline"
    if pair.variant == given.baseline:
        return "this is the baseline"
    return row.score.reason or f"baseline {given.baseline} has no score on ledger {pair.ledger}"


def _rates(row: RowFigures, records: PairRecords | None) -> api.Rates:
    tries = records.tries if records else 0
    lost = (
        sum(count for one, count in records.outcomes.items() if TABLE[one].infrastructure) if records else 0
    )
    return api.Rates(
        refusal=to_api.rate(row.rates.refusal),
        fallback=to_api.rate(row.rates.fallback),
        blocked=to_api.rate(row.rates.blocked),
        reward_hacking=to_api.rate(row.rates.reward_hacking),
        infrastructure=to_api.rate(Rate(lost, tries, None if tries else "no try is recorded")),
    )


def _harness(records: PairRecords | None) -> api.Harness:
    found = records.harnesses if records else set()
    return api.Harness(
        assay=sorted({assay for assay, _, _ in found if assay}),
        commits=sorted({commit for _, commit, _ in found if commit}),
        harbor=sorted({harbor for _, _, harbor in found if harbor}),
        agents=sorted({" ".join(filter(None, one)) for one in records.agents if any(one)}) if records else [],
        models=sorted(records.models) if records else [],
    )


def _ledger(given: ScoreInput, ledger: ScoredLedger) -> api.LedgerEntry:
    benchmark = ledger.benchmark
    return api.LedgerEntry(
        name=ledger.name,
        digest=ledger.digest,
        benchmark=benchmark[0] if benchmark else None,
        version=benchmark[1] if benchmark else None,
        tasks=len(ledger.tasks.tasks),
        clusters=len({facts.cluster for facts in ledger.tasks.tasks}),
        repetitions=ledger.tasks.repetitions,
        from_records=ledger.file is None,
        resources=resource_digest(given.collection.pairs, ledger.name),
        excluded={one.task: one.reason for one in ledger.plan.exclusions},
        facts=stated_facts(ledger.file) if ledger.file else None,
        freeze=[to_api.freeze_order(*one) for one in freeze_times(given, ledger.name)],
        task_clusters={facts.task: facts.cluster for facts in ledger.tasks.tasks},
    )


def _prices(collection: Collection) -> api.PriceSheetEntry | None:
    prices = collection.prices
    if prices is None:
        return None
    return api.PriceSheetEntry(
        digest=prices.digest,
        valid_on=prices.sheet.valid_on.isoformat(),
        package=prices.sheet.source.package,
        version=prices.sheet.source.version,
        reviewed=prices.sheet.reviewed is not None,
        unknown_models=sorted(collection.called_models - prices.models),
    )


def _ranking(given: ScoreInput, gate: DriftGate) -> api.Ranking:
    by = "index" if given.suite else ("score" if len(given.ledgers) == 1 else "nothing")
    return api.Ranking.model_validate(
        {"by": by, "stopped": gate.ranking_stops, "reasons": list(gate.reasons)}
    )


def _exclusions(given: ScoreInput, figures: Mapping[Pair, RowFigures]) -> list[api.Exclusion]:
    found = []
    for pair, row in figures.items():
        records = given.collection.pairs.get(pair)
        for task, observed in row.attempts.by_task.items():
            valid = {one.repetition for one in observed if one.reward is not None}
            for repetition in range(row.attempts.ledger.repetitions):
                if repetition in valid:
                    continue
                attempt = records.attempts.get((task, repetition)) if records else None
                found.append(
                    api.Exclusion(
                        ledger=pair.ledger,
                        variant=pair.variant,
                        task=task,
                        repetition=repetition,
                        tries=attempt.last_try if attempt else 0,
                        outcome=attempt.last_outcome if attempt else None,
                        reason=(attempt.last_reason or "no reason is recorded")
                        if attempt
                        else "no try of this attempt is recorded",
                    )
                )
    return found


def _earlier_runs(given: ScoreInput) -> list[EarlierRun] | None:
    """Of all runs of the report; None if nobody looked for those of one of them."""
    if not given.runs or any(run.earlier_runs is None for run in given.runs.values()):
        return None
    return [one for run in given.runs.values() for one in run.earlier_runs or ()]


def _first_start(collection: Collection) -> datetime | None:
    return min((start for found in collection.pairs.values() for start in found.starts), default=None)
