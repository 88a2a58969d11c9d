"""Score against cost, tokens and time, with the Pareto front."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from assay.api.report import Usage
from assay.core.report_cells import money, percent
from assay.core.report_html.charts import COLOURS, Scored
from assay.core.report_html.drawing import WIDTH, Chart, Margins, draw, label, rows
from assay.core.report_html.placing import Placed, place_labels, stairs

_PLOT_HEIGHT = 260


@dataclass(frozen=True, slots=True)
class Metric:
    """Something that an attempt takes: how it is named, and its mean an attempt."""

    name: str
    unit: str
    of: Callable[[Usage], float | None]
    axis: str
    text: Callable[[float], str]
    """How a value stands in the table."""
    path: str = ""
    """Where it is below a usage of report.json; empty for a sum."""


def _tokens(usage: Usage) -> float | None:
    known = usage.tokens.input.mean, usage.tokens.output.mean
    return None if None in known else sum(one for one in known if one is not None)


def _float(value: Any) -> float | None:
    return None if value is None else float(value)


def _dollars(value: float) -> str:
    return money(Decimal(repr(value)))


METRICS = (
    Metric(
        name="cost",
        unit="USD an attempt",
        of=lambda usage: _float(usage.cost_usd.mean),
        axis="$~r",
        text=_dollars,
        path="costUsd/mean",
    ),
    Metric(
        name="tokens",
        unit="Tokens an attempt, input and output",
        of=_tokens,
        axis="~s",
        text="{:,.0f}".format,
    ),
    Metric(
        name="time",
        unit="Agent seconds an attempt",
        of=lambda usage: usage.agent_seconds.mean,
        axis="~s",
        text="{:,.1f}".format,
        path="agentSeconds/mean",
    ),
)


@dataclass(frozen=True, slots=True)
class TradeOff:
    """A chart of score against a metric, who is on its Pareto front, and who lacks the metric."""

    metric: Metric
    chart: Chart | None
    front: frozenset[str]
    missing: Sequence[str]


def trade_off(name: str, what: str, metric: Metric, found: Sequence[Scored]) -> TradeOff:
    """Score against what it took. Sentinels are left out: they are no rivals."""
    rivals = [one for one in found if one.role != "sentinel"]
    known = [(taken, one) for one in rivals if (taken := metric.of(one.usage)) is not None]
    missing = [one.variant for one in rivals if metric.of(one.usage) is None]
    front = pareto_front([(taken, one.value, one.variant) for taken, one in known])
    if not known:
        return TradeOff(metric, None, front, missing)
    most = 1.12 * max(taken for taken, _ in known) or 1.0
    spots = [
        Placed(taken / most * WIDTH, (1 - one.value) * _PLOT_HEIGHT, label(one.variant, 30))
        for taken, one in known
    ]
    line = sorted(
        (spot.x, spot.y) for spot, (_, one) in zip(spots, known, strict=True) if one.variant in front
    )
    placed = place_labels(spots, WIDTH, _PLOT_HEIGHT, stairs(line))
    data: list[dict[str, Any]] = [
        {
            "x": taken,
            "value": one.value,
            "low": max(0.0, one.interval.low) if one.interval else None,
            "high": min(1.0, one.interval.high) if one.interval else None,
            "colour": COLOURS[one.role],
            "variant": spot.text,
            "labelX": spot.x / WIDTH * most,
            "labelY": 1 - spot.y / _PLOT_HEIGHT,
            "front": one.variant in front,
        }
        for (taken, one), spot in zip(known, placed, strict=True)
    ]
    on_front = [one for one in sorted(data, key=_taken) if one["front"]]
    said = "; ".join(
        f"{label(one.variant)}: {percent(one.value)} at {metric.text(taken)}" for taken, one in known
    )
    names = ", ".join(label(one) for one in sorted(front))
    return TradeOff(
        metric,
        draw(
            name,
            f"{what} against {metric.name}",
            f"{metric.unit}. {said}. On the Pareto front, where nobody scores higher for less: {names}.",
            _trade_off_spec(what, metric, data, on_front, most),
            Margins(left=68),
        ),
        front,
        missing,
    )


def _taken(one: Mapping[str, Any]) -> float:
    return float(one["x"])


def _trade_off_spec(
    what: str,
    metric: Metric,
    data: Sequence[Mapping[str, Any]],
    front: Sequence[Mapping[str, Any]],
    most: float,
) -> dict[str, Any]:
    x = {
        "field": "x",
        "type": "quantitative",
        "scale": {"domain": [0, most], "nice": False},
        "axis": {"format": metric.axis, "title": metric.unit, "tickCount": 5},
    }
    y = {
        "field": "value",
        "type": "quantitative",
        "scale": {"domain": [0, 1]},
        "axis": {"format": "~%", "title": what, "tickCount": 5},
    }
    intervals = {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}}
    return {
        "width": WIDTH,
        "height": _PLOT_HEIGHT,
        "layer": [
            {
                "data": rows(front),
                "mark": {
                    "type": "line",
                    "interpolate": "step-after",
                    "strokeDash": [5, 4],
                    "color": "var(--muted)",
                },
                "encoding": {"x": x, "y": y},
            },
            {
                "data": rows(data),
                "transform": [{"filter": "datum.low != null"}],
                "mark": {"type": "rule", "strokeWidth": 1.5, "color": "var(--muted)"},
                "encoding": intervals,
            },
            {
                "data": rows(data),
                "mark": {"type": "point", "filled": True, "size": 110, "opacity": 1},
                "encoding": {"x": x, "y": y, "color": {"field": "colour", "type": "nominal", "scale": None}},
            },
            {
                "data": rows([one for one in data if one["variant"]]),
                "mark": {"type": "text", "align": "left", "baseline": "middle"},
                "encoding": {
                    "x": {**x, "field": "labelX"},
                    "y": {**y, "field": "labelY"},
                    "text": {"field": "variant"},
                },
            },
        ],
    }


def pareto_front(found: Sequence[tuple[float, float, str]]) -> frozenset[str]:
    """Names of those (taken, score, name) for whom nobody scores as high for less, or higher for as much."""
    return frozenset(
        name
        for taken, score, name in found
        if not any(
            (other <= taken and better >= score) and (other < taken or better > score)
            for other, better, _ in found
        )
    )
