"""How tries ended, as shares."""

from assay.api.outcome import OutcomeClass
from assay.api.report import Report
from assay.core.outcomes import TABLE
from assay.core.report_html.charts import MAX_BARS, beside_names, plot_size
from assay.core.report_html.drawing import Chart, draw, label, rows

OUTCOME_KINDS = ("graded", "the agent's own doing", "refused", "verdict failed", "infrastructure", "other")
OUTCOME_COLOURS = tuple(f"var(--outcome-{number})" for number in range(1, len(OUTCOME_KINDS) + 1))


def outcomes_chart(name: str, report: Report) -> Chart | None:
    """How the tries of each row ended, as shares of all tries."""
    many = len(report.ledgers) > 1
    data = [
        {
            "row": label(f"{row.variant} · {row.ledger}" if many else row.variant, 48),
            "kind": outcome_kind(outcome),
            "order": OUTCOME_KINDS.index(outcome_kind(outcome)),
            "tries": tries,
        }
        for row in report.vector[:MAX_BARS]
        for outcome, tries in row.outcomes.items()
        if tries
    ]
    if not data:
        return None
    margins = beside_names(data, "row", right=20)
    spec = {
        **plot_size(margins, 26 * len({one["row"] for one in data})),
        "data": rows(data),
        "mark": {"type": "bar", "height": 16},
        "encoding": {
            "y": {
                "field": "row",
                "type": "nominal",
                "sort": None,
                "axis": {"title": None, "domain": False, "ticks": False},
            },
            "x": {
                "aggregate": "sum",
                "field": "tries",
                "stack": "normalize",
                "axis": {"format": "~%", "title": "Share of all tries", "tickCount": 5},
            },
            "order": {"field": "order", "type": "quantitative"},
            "color": {
                "field": "kind",
                "type": "nominal",
                "scale": {"domain": list(OUTCOME_KINDS), "range": list(OUTCOME_COLOURS)},
                "legend": None,
            },
        },
    }
    said = "Stacked bars, a share of all tries each; the table beside lists every class."
    return draw(name, "How tries ended", said, spec, margins, OUTCOME_KINDS)


def outcome_kind(outcome: OutcomeClass) -> str:
    """What a class is about, in the words of the chart's legend."""
    rule = TABLE[outcome]
    if outcome in (OutcomeClass.REFUSED_BLOCKED, OutcomeClass.REFUSED_FALLBACK):
        return "refused"
    if outcome is OutcomeClass.GRADED:
        return "graded"
    if rule.retained:
        return "the agent's own doing"
    if outcome in (OutcomeClass.VERIFIER_TIMEOUT, OutcomeClass.VERIFIER_CRASH, OutcomeClass.JUDGE_INCOMPLETE):
        return "verdict failed"
    return "infrastructure" if rule.infrastructure else "other"
