"""The report as tables of text, the same for terminal and Markdown."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from assay.api.report import Exclusion, FreezeOrder, IndexRow, LedgerEntry, Report, Row
from assay.core.freeze_order import FreezeTimes, freeze_words
from assay.core.report_cells import (
    UNKNOWN,
    Table,
    cost,
    mean,
    named,
    noise,
    p_value,
    percent,
    points,
    rate,
    shift,
    short_digest,
    total,
    with_error,
)
from assay.core.report_details import detail_tables
from assay.core.report_history import earlier_runs, run_notes
from assay.core.stated_facts import fact_words

NOT_PUBLISHABLE = "NOT PUBLISHABLE"
MAX_EXCLUSIONS = 50


@dataclass(frozen=True, slots=True)
class Document:
    """A rendered report: first whether it may be published, then tables."""

    verdict: str
    reasons: tuple[str, ...]
    tables: tuple[Table, ...] = field(default=())
    notes: tuple[str, ...] = ()


def document(report: Report, *, details: bool = False) -> Document:
    """All tables of a report; `details` adds groups, pass@k and the second line of error."""
    tables = []
    if report.index:
        tables.append(_index(report))
    for ledger in report.ledgers:
        rows = [row for row in report.vector if row.ledger == ledger.name]
        tables += [_scores(report, ledger, rows), _usage(ledger, rows)]
        if details:
            tables += detail_tables(ledger, rows)
    if report.drift:
        tables.append(_drift(report))
    if report.earlier_runs:
        tables.append(earlier_runs(report.earlier_runs))
    if report.exclusions:
        tables.append(_exclusions(report.exclusions))
    return Document(
        report.verdict,
        tuple(report.reasons_against),
        tuple(table for table in tables if table.rows),
        tuple(_origin(report)),
    )


def _scores(report: Report, ledger: LedgerEntry, rows: Sequence[Row]) -> Table:
    digest = short_digest(ledger.digest) if ledger.digest else "not frozen"
    name = f"{ledger.benchmark} {ledger.version}" if ledger.benchmark else "tasks of the records"
    ranked = _ranks(report, rows)
    return Table(
        f"{ledger.name}: {name}, {ledger.tasks} tasks in {ledger.clusters} clusters, {ledger.repetitions} "
        f"repetitions, ledger {digest}",
        (
            *("RANK", "VARIANT", "SCORE (95 %)", "REPEAT NOISE", "VALID ONLY", "COVERAGE", "FIRST TRY"),
            *("BY CLUSTER", "SHIFT (95 %)", "P (HOLM)"),
        ),
        tuple(
            (
                ranked.get(row.variant, UNKNOWN),
                named(row.variant, row.role),
                with_error(row.score.strict, _half(row)),
                noise(row.repeat_noise.standard_error),
                percent(row.score.valid),
                f"{row.score.attempts_valid}/{row.score.attempts_planned}",
                percent(row.score.first_try_strict),
                percent(row.score.cluster_mean),
                shift(row.shift),
                p_value(row.shift),
            )
            for row in rows
        ),
        tuple(_score_notes(rows)),
    )


def _ranks(report: Report, rows: Sequence[Row]) -> dict[str, str]:
    if report.ranking.by != "score" or report.ranking.stopped:
        return {}
    scores = {row.variant: row.score.strict for row in rows if row.role != "sentinel"}
    known = {name: value for name, value in scores.items() if value is not None}
    return {name: str(1 + sum(other > value for other in known.values())) for name, value in known.items()}


def _half(row: Row) -> float | None:
    return row.sampling.interval.half_width if row.sampling and row.sampling.interval else None


def _score_notes(rows: Sequence[Row]) -> list[str]:
    notes = ["SCORE counts a missing result as 0; its ± is the 95 % interval for tasks like these (CR2)."]
    for row in rows:
        if row.sampling is not None and row.sampling.reason:
            notes.append(f"{row.variant}: no interval: {row.sampling.reason}.")
        if row.shift is None or row.role == "sentinel":
            continue
        if row.shift.minimum_detectable_effect is not None:
            size = 100 * row.shift.minimum_detectable_effect
            notes.append(
                f"{row.variant}: a true difference below {size:.1f} points would mostly not have been found."
            )
        test = row.shift.sign_flip
        if test is not None and test.smallest_possible_p >= 0.05:
            notes.append(
                f"{row.variant}: {test.clusters_differing} clusters differ, so p cannot reach .05 "
                f"(at least {test.smallest_possible_p:.3g})."
            )
    return notes


def _usage(ledger: LedgerEntry, rows: Sequence[Row]) -> Table:
    return Table(
        f"{ledger.name}: what a retained attempt took, and what was thrown away",
        (
            *(
                "VARIANT",
                "COST USD (n)",
                "INPUT",
                "CACHE READ",
                "CACHE WRITE",
                "OUTPUT",
                "AGENT S",
                "TOTAL S",
            ),
            *("TRIES", "REPLACED", "THEIR COST USD", "INFRA ERRORS", "REFUSED", "HACKED"),
        ),
        tuple(
            (
                named(row.variant, row.role),
                cost(row.usage.cost_usd),
                mean(row.usage.tokens.input, 0),
                mean(row.usage.tokens.cache_read, 0),
                mean(row.usage.tokens.cache_write, 0),
                mean(row.usage.tokens.output, 0),
                mean(row.usage.agent_seconds, 1),
                mean(row.usage.total_seconds, 1),
                str(row.tries),
                str(row.replaced.tries),
                total(row.replaced.cost_usd),
                rate(row.rates.infrastructure),
                rate(row.rates.refusal),
                rate(row.rates.reward_hacking),
            )
            for row in rows
        ),
        tuple(
            f"{row.variant}: cost: {row.usage.cost_usd.reason}."
            for row in rows
            if row.usage.cost_usd.reason and row.usage.cost_usd.n < row.usage.cost_usd.planned
        ),
    )


def _index(report: Report) -> Table:
    names = list(report.index[0].components)
    return Table(
        f"Index {report.suite}",
        (
            *("RANK", "VARIANT", "INDEX (95 %)", "REPEAT NOISE", *(name.upper() for name in names)),
            *("SHIFT (95 %)", "P (HOLM)", "COST USD (n)", "AGENT S", "REFUSED", "BLOCKED"),
        ),
        tuple(_index_row(row) for row in report.index),
        tuple(_index_notes(report)),
    )


def _index_row(row: IndexRow) -> tuple[str, ...]:
    return (
        str(row.rank) if row.rank is not None else UNKNOWN,
        named(row.variant, row.role),
        with_error(row.value, row.sampling.half_width if row.sampling else None),
        noise(row.repeat_noise),
        *(percent(value) for value in row.components.values()),
        shift(row.shift),
        p_value(row.shift),
        cost(row.pooled.cost_usd),
        mean(row.pooled.agent_seconds, 1),
        percent(row.refusal.value),
        percent(row.blocked.value),
    )


def _index_notes(report: Report) -> list[str]:
    notes = [f"{row.variant}: no index: {row.reason}." for row in report.index if row.reason]
    for row in report.index:
        if row.value is not None and row.blocked.value:
            notes.append(
                f"{row.variant}: refusals can have cost at most {100 * row.blocked.value:.1f} points."
            )
        if row.shift is not None and row.shift.minimum_detectable_effect is not None:
            size = 100 * row.shift.minimum_detectable_effect
            notes.append(
                f"{row.variant}: a true difference below {size:.1f} points would mostly not have been found."
            )
    if report.ranking.stopped:
        notes.append(f"No ranks: {'; '.join(report.ranking.reasons)}.")
    return notes


def _drift(report: Report) -> Table:
    return Table(
        f"Drift of baseline {report.baseline} since the reference run",
        ("LEDGER", "SHIFT", "NOISE", "P OF SHIFT (HOLM)", "P OF ANY CHANGE (HOLM)", "WOULD HAVE FOUND", "N"),
        tuple(
            (
                one.ledger,
                points(one.shift),
                noise(one.repeat_noise),
                UNKNOWN if one.adjusted_p_shift is None else f"{one.adjusted_p_shift:.3g}",
                UNKNOWN if one.adjusted_p_any is None else f"{one.adjusted_p_any:.3g}",
                UNKNOWN if one.detectable is None else f"{100 * one.detectable:.1f} points",
                f"{one.tasks} tasks, {one.attempts_reference} and {one.attempts} attempts",
            )
            for one in report.drift
        ),
        tuple(f"{one.ledger}: {one.reason}." for one in report.drift if one.reason),
    )


def _exclusions(found: Sequence[Exclusion]) -> Table:
    shown = found[:MAX_EXCLUSIONS]
    return Table(
        f"{len(found)} attempts without a result",
        ("LEDGER", "VARIANT", "TASK", "REPETITION", "TRIES", "OUTCOME", "REASON"),
        tuple(
            (
                one.ledger,
                one.variant,
                one.task,
                str(one.repetition),
                str(one.tries),
                one.outcome.value if one.outcome else UNKNOWN,
                one.reason,
            )
            for one in shown
        ),
        (f"{len(found) - len(shown)} more are in the JSON.",) if len(found) > len(shown) else (),
    )


def _frozen(found: FreezeOrder) -> str:
    times = FreezeTimes(
        frozen_at=found.frozen_at,
        recorded_at=found.recorded_at,
        recorded_digest=found.recorded_digest,
        first_call_at=found.first_call_at,
        calls_undated=found.calls_undated,
    )
    return freeze_words(times)


def _origin(report: Report) -> list[str]:
    notes = [
        f"Computed by Assay {report.code.assay}"
        + (f", commit {report.code.commit[:12]}" if report.code.commit else "")
        + f", from {report.records} records."
    ]
    commits = sorted({commit[:12] for row in report.vector for commit in row.harness.commits})
    harbors = sorted({version for row in report.vector for version in row.harness.harbor})
    notes.append(
        f"Harness: Assay {', '.join(commits) or 'commit unknown'}; Harbor {', '.join(harbors) or 'unknown'}."
    )
    notes += run_notes(report)
    if report.prices:
        prices = report.prices
        notes.append(
            f"Prices of {prices.valid_on} from {prices.package} {prices.version}, sheet "
            f"{short_digest(prices.digest)}, {'reviewed' if prices.reviewed else 'not reviewed'}."
        )
        if prices.unknown_models:
            notes.append(f"No price of {', '.join(prices.unknown_models)}: their cost is unknown, not 0.")
    for ledger in report.ledgers:
        notes += [f"{ledger.name}: {words}" for words in fact_words(ledger.facts)] if ledger.facts else []
        notes += [f"{ledger.name}: {_frozen(one)}." for one in ledger.freeze]
        notes += [
            f"{ledger.name}: {task} is left out by plan: {why}." for task, why in ledger.excluded.items()
        ]
    if any(ledger.from_records for ledger in report.ledgers):
        notes.append("Without a ledger file, tasks are those of the records, each one its own cluster.")
    return notes
