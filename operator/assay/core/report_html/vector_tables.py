"""The score vector as tables of the page: the short one of the first screen, and the full ones."""

from collections.abc import Iterable, Sequence

from assay.api.report import IndexRow, LedgerEntry, Report, Row, ShiftFigures, Usage
from assay.core.report_cells import (
    UNKNOWN,
    cost,
    mean,
    named,
    noise,
    p_value,
    percent,
    points,
    rate,
    shift,
    total,
    with_error,
)
from assay.core.report_html.answer import Noise, noise_of
from assay.core.report_html.source import Source, pointer
from assay.core.report_html.tables import Cell, Column, HtmlTable, figure, words

TONES = {Noise.MORE: "good", Noise.WITHIN: "plain", Noise.UNKNOWN: "plain"}
_VARIANT = Column("Variant", "The agent as it was configured", numeric=False)
_SCORE = Column(
    "Score ± 95 %", "Mean over tasks; a missing result counts as 0. The ± is for tasks like these."
)
_DIFFERENCE = Column(
    "Difference, points", "Points above or below the baseline on the same tasks, with 95 % interval"
)
_NOISE = Column("Is it noise?", "By the exact sign-flip test over task clusters, p < 0.05", numeric=False)
_P = Column("p", "Exact sign-flip test; of how many comparisons it is adjusted for (Holm)")
_DETECTABLE = Column("Detectable", "Smallest true difference that would mostly have been found, in points")
_COVERAGE = Column("Coverage", "Attempts with a result, of all planned")
_TOOK = (
    Column("Cost", "Mean USD an attempt, and how many attempts have a known cost"),
    Column("Tokens in", "Mean input tokens an attempt, cache included"),
    Column("Tokens out", "Mean output tokens an attempt, reasoning included"),
    Column("Agent time", "Mean seconds that the agent worked"),
)


def scoreboard(source: Source, ledger: LedgerEntry | None) -> HtmlTable:
    """The vector in short, best first: of the index without a ledger, else of that ledger."""
    report = source.report
    if ledger is None:
        index = _best_first((place, row, row.value) for place, row in enumerate(report.index))
        return HtmlTable(
            "scoreboard-index",
            f"Index {report.suite}",
            (
                _VARIANT,
                Column("Index ± 95 %", "Equal-weight mean of the components"),
                _DIFFERENCE,
                _NOISE,
                Column("Attempts", "Retained attempts of the suite"),
                *_TOOK,
            ),
            [_index_scoreboard(source, place) for place in index],
        )
    found = _best_first((place, row, row.score.strict) for place, row in _of(report, ledger))
    return HtmlTable(
        f"scoreboard-{ledger.name}",
        f"Ledger {ledger.name}",
        (_VARIANT, _SCORE, _DIFFERENCE, _NOISE, _COVERAGE, *_TOOK),
        [_scoreboard(source, place) for place in found],
    )


def _best_first(found: Iterable[tuple[int, Row | IndexRow, float | None]]) -> list[int]:
    ordered = sorted(
        found,
        key=lambda one: (one[1].role == "sentinel", one[2] is None, -(one[2] or 0), one[1].variant),
    )
    return [place for place, _, _ in ordered]


def _of(report: Report, ledger: LedgerEntry) -> list[tuple[int, Row]]:
    return [(place, row) for place, row in enumerate(report.vector) if row.ledger == ledger.name]


def _scoreboard(source: Source, place: int) -> list[Cell]:
    row, at = source.report.vector[place], f"/vector/{place}"
    return [
        words(named(row.variant, row.role)),
        figure(
            source, with_error(row.score.strict, _half(row)), f"{at}/score/strict", row.score.reason or ""
        ),
        *_shift_cells(source, row, at),
        _coverage(source, row, at),
        *_took(source, row.usage, f"{at}/usage"),
    ]


def _index_scoreboard(source: Source, place: int) -> list[Cell]:
    row, at = source.report.index[place], f"/index/{place}"
    half = row.sampling.half_width if row.sampling else None
    return [
        words(named(row.variant, row.role)),
        figure(source, with_error(row.value, half), f"{at}/value", row.reason or ""),
        *_shift_cells(source, row, at),
        figure(source, f"{row.attempts:,}", f"{at}/attempts"),
        *_took(source, row.pooled, f"{at}/pooled"),
    ]


def _half(row: Row) -> float | None:
    return row.sampling.interval.half_width if row.sampling and row.sampling.interval else None


def _coverage(source: Source, row: Row, at: str) -> Cell:
    text = f"{row.score.attempts_valid}/{row.score.attempts_planned}"
    tone = "plain" if row.score.coverage == 1 else "warn"
    return figure(source, text, f"{at}/score/coverage", tone=tone)


def _shift_cells(source: Source, row: Row | IndexRow, at: str) -> list[Cell]:
    found = row.shift
    if found is None or found.shift is None:
        return [
            Cell(UNKNOWN, f"{at}/shift", note=row.shift_reason or (found.reason if found else None) or ""),
            words(""),
        ]
    if row.role == "sentinel":
        return [figure(source, shift(found), f"{at}/shift/shift"), words("")]
    verdict, why = noise_of(found)
    return [figure(source, shift(found), f"{at}/shift/shift"), words(verdict.value, why, TONES[verdict])]


def _took(source: Source, usage: Usage, at: str) -> list[Cell]:
    cost_text = cost(usage.cost_usd)
    return [
        figure(
            source,
            f"${cost_text}" if usage.cost_usd.mean is not None else cost_text,
            f"{at}/costUsd/mean",
            usage.cost_usd.reason or "",
        ),
        figure(source, mean(usage.tokens.input, 0), f"{at}/tokens/input/mean"),
        figure(source, mean(usage.tokens.output, 0), f"{at}/tokens/output/mean"),
        figure(source, _seconds(mean(usage.agent_seconds, 1)), f"{at}/agentSeconds/mean"),
    ]


def _seconds(text: str) -> str:
    return text if text == UNKNOWN else f"{text} s"


def index_table(source: Source) -> HtmlTable:
    """The index with its components, and what refusals can have cost."""
    report = source.report
    names = list(report.index[0].components)
    return HtmlTable(
        "index",
        f"Index {report.suite} and its components",
        (
            _VARIANT,
            Column("Rank", "By the index; none where the baseline drifted or a component is incomplete"),
            Column("Index ± 95 %", "Equal-weight mean of the components"),
            Column("Repeat noise", "Standard error over repetitions of these very tasks, in points"),
            *(Column(name, "Strict score of this component") for name in names),
            _DIFFERENCE,
            _P,
            _DETECTABLE,
            Column("Refused", "Equal-weight mean of the components' refusal rates"),
            Column("Blocked", "The most that refusals can have cost"),
        ),
        [_index(source, place, row) for place, row in enumerate(report.index)],
        notes=[f"{row.variant}: no index: {row.reason}." for row in report.index if row.reason],
    )


def _index(source: Source, place: int, row: IndexRow) -> list[Cell]:
    at = f"/index/{place}"
    half = row.sampling.half_width if row.sampling else None
    return [
        words(named(row.variant, row.role)),
        figure(source, UNKNOWN if row.rank is None else str(row.rank), f"{at}/rank"),
        figure(source, with_error(row.value, half), f"{at}/value", row.reason or ""),
        figure(source, noise(row.repeat_noise), f"{at}/repeatNoise"),
        *(
            figure(source, percent(value), at + pointer("components", name))
            for name, value in row.components.items()
        ),
        *_tested(source, row.shift, at, row.shift_reason or ""),
        figure(source, percent(row.refusal.value), f"{at}/refusal/value", row.refusal.reason or ""),
        figure(source, percent(row.blocked.value), f"{at}/blocked/value", row.blocked.reason or ""),
    ]


def scores_table(source: Source, ledger: LedgerEntry) -> HtmlTable:
    """Every score of a ledger with its errors and denominators."""
    return HtmlTable(
        f"scores-{ledger.name}",
        f"Scores on {ledger.name}",
        (
            _VARIANT,
            _SCORE,
            Column("Repeat noise", "Standard error over repetitions of these very tasks, in points"),
            Column("Valid only", "Mean over tasks of the attempts that have a result"),
            Column("First try", "As if no try had been replaced"),
            Column("By cluster", "Mean over clusters of tasks instead of tasks"),
            _DIFFERENCE,
            _P,
            _DETECTABLE,
            Column("Tasks", "Scored tasks"),
            Column("Clusters", "Tasks that share a source are one cluster: they are no independent evidence"),
            _COVERAGE,
        ),
        [_scores(source, place, row) for place, row in _of(source.report, ledger)],
        notes=[
            f"{row.variant}: no interval: {row.sampling.reason}."
            for _, row in _of(source.report, ledger)
            if row.sampling and row.sampling.reason
        ],
    )


def _scores(source: Source, place: int, row: Row) -> list[Cell]:
    at = f"/vector/{place}"
    return [
        words(named(row.variant, row.role)),
        figure(
            source, with_error(row.score.strict, _half(row)), f"{at}/score/strict", row.score.reason or ""
        ),
        figure(source, noise(row.repeat_noise.standard_error), f"{at}/repeatNoise/standardError"),
        figure(source, percent(row.score.valid), f"{at}/score/valid"),
        figure(source, percent(row.score.first_try_strict), f"{at}/score/firstTryStrict"),
        figure(source, percent(row.score.cluster_mean), f"{at}/score/clusterMean"),
        *_tested(source, row.shift, at, row.shift_reason or ""),
        figure(source, str(row.score.tasks), f"{at}/score/tasks"),
        figure(source, str(row.score.clusters), f"{at}/score/clusters"),
        _coverage(source, row, at),
    ]


def _tested(source: Source, found: ShiftFigures | None, at: str, why_not: str) -> list[Cell]:
    if found is None:
        return [Cell(UNKNOWN, f"{at}/shift", note=why_not), words(UNKNOWN), words(UNKNOWN)]
    test = found.sign_flip
    which = "adjustedP" if test and test.adjusted_p is not None else "pValue"
    tested = f"{at}/shift/signFlip/{which}" if test else f"{at}/shift/signFlip"
    return [
        figure(source, shift(found), f"{at}/shift/shift"),
        figure(source, p_value(found), tested, found.error_reason or ""),
        figure(
            source,
            points(found.minimum_detectable_effect).lstrip("+"),
            f"{at}/shift/minimumDetectableEffect",
        ),
    ]


def usage_table(source: Source, ledger: LedgerEntry) -> HtmlTable:
    """What attempts took, what was thrown away, and what went wrong."""
    return HtmlTable(
        f"usage-{ledger.name}",
        f"What attempts took on {ledger.name}",
        (
            _VARIANT,
            _TOOK[0],
            _TOOK[1],
            Column("Cache read", "Part of the input that was read from a cache"),
            Column("Cache write", "Part of the input that was written to a cache"),
            _TOOK[2],
            Column("Reasoning", "Part of the output that was reasoning"),
            _TOOK[3],
            Column("Total time", "Mean seconds of all phases"),
            Column("Tries", "All tries, the replaced ones too"),
            Column("Replaced", "Tries that did not count"),
            Column("Their cost", "USD of the replaced tries; ≥ where some costs are unknown"),
        ),
        [_usage(source, place, row) for place, row in _of(source.report, ledger)],
        notes=[
            f"{row.variant}: cost: {row.usage.cost_usd.reason}."
            for _, row in _of(source.report, ledger)
            if row.usage.cost_usd.reason and row.usage.cost_usd.n < row.usage.cost_usd.planned
        ],
    )


def _usage(source: Source, place: int, row: Row) -> list[Cell]:
    at, took = f"/vector/{place}", _took(source, row.usage, f"/vector/{place}/usage")
    tokens = row.usage.tokens
    return [
        words(named(row.variant, row.role)),
        took[0],
        took[1],
        figure(source, mean(tokens.cache_read, 0), f"{at}/usage/tokens/cacheRead/mean"),
        figure(source, mean(tokens.cache_write, 0), f"{at}/usage/tokens/cacheWrite/mean"),
        took[2],
        figure(source, mean(tokens.reasoning, 0), f"{at}/usage/tokens/reasoning/mean"),
        took[3],
        figure(source, _seconds(mean(row.usage.total_seconds, 1)), f"{at}/usage/totalSeconds/mean"),
        figure(source, str(row.tries), f"{at}/tries"),
        figure(source, str(row.replaced.tries), f"{at}/replaced/tries"),
        figure(source, total(row.replaced.cost_usd), f"{at}/replaced/costUsd/total"),
    ]


def rates_table(source: Source) -> HtmlTable:
    """Refusals, reward hacking and infrastructure errors of every row."""
    kinds = {
        "refusal": Column("Refused", "Retained attempts that a provider or model refused in any way"),
        "fallback": Column("Fallback", "Refused, and another model finished"),
        "blocked": Column("Blocked", "Refused, and nothing came of it"),
        "rewardHacking": Column("Reward hacking", "A judge found that the verifier was tricked"),
        "infrastructure": Column("Infrastructure", "Tries lost to the infrastructure, of all tries"),
    }
    many = len(source.report.ledgers) > 1
    table = []
    for place, row in enumerate(source.report.vector):
        rates = row.rates
        found = (rates.refusal, rates.fallback, rates.blocked, rates.reward_hacking, rates.infrastructure)
        cells = [
            figure(source, rate(one), f"/vector/{place}/rates/{kind}/value", one.reason or "")
            for kind, one in zip(kinds, found, strict=True)
        ]
        table.append([words(_row_name(row, many)), *cells])
    return HtmlTable("rates", "Refusals, reward hacking, infrastructure", (_VARIANT, *kinds.values()), table)


def _row_name(row: Row, many: bool) -> str:
    name = named(row.variant, row.role)
    return f"{name} on {row.ledger}" if many else name


def outcomes_table(source: Source) -> HtmlTable:
    """Tries by class: a line a class, a column a row of the vector."""
    report = source.report
    many = len(report.ledgers) > 1
    classes = sorted({outcome for row in report.vector for outcome in row.outcomes})
    rows: list[Sequence[Cell]] = []
    for outcome in classes:
        cells = [
            figure(source, str(row.outcomes[outcome]), f"/vector/{place}/outcomes/{outcome.value}")
            if outcome in row.outcomes
            else Cell("0", value=0)
            for place, row in enumerate(report.vector)
        ]
        rows.append([words(outcome.value), *cells])
    columns = [Column(_row_name(row, many)) for row in report.vector]
    return HtmlTable("outcomes", "Tries by outcome class", (Column("Class", numeric=False), *columns), rows)
