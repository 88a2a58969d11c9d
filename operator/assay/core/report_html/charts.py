"""Charts of scores, and of their differences from the baseline."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assay.api.report import IndexRow, Interval, Role, Row, ShiftFigures, Usage
from assay.core.report_cells import percent, points
from assay.core.report_html.drawing import WIDTH, Chart, Margins, draw, label, rows, text_width

_ROW_HEIGHT = 34
COLOURS = {"baseline": "var(--baseline)", "candidate": "var(--candidate)", "sentinel": "var(--sentinel)"}
MAX_BARS = 40
"""Rows of a chart; the table beside it has all."""


@dataclass(frozen=True, slots=True)
class Scored:
    """A variant's score on a ledger or on the index, with what it took."""

    variant: str
    role: Role
    value: float
    interval: Interval | None
    shift: ShiftFigures | None
    usage: Usage
    value_at: str
    """Pointer to the score in report.json."""
    usage_at: str
    """Pointer to what it took."""


def scored(found: Iterable[tuple[int, Row | IndexRow]]) -> list[Scored]:
    """Rows with a score, the best first, sentinels last; each comes with its place in the report's list."""
    known = list(_scored(found))
    return sorted(known, key=lambda one: (one.role == "sentinel", -one.value, one.variant))


def _scored(found: Iterable[tuple[int, Row | IndexRow]]) -> Iterator[Scored]:
    for place, row in found:
        if isinstance(row, IndexRow):
            if row.value is not None:
                at = f"/index/{place}"
                yield Scored(
                    variant=row.variant,
                    role=row.role,
                    value=row.value,
                    interval=row.sampling,
                    shift=row.shift,
                    usage=row.pooled,
                    value_at=f"{at}/value",
                    usage_at=f"{at}/pooled",
                )
        elif row.score.strict is not None:
            interval = row.sampling.interval if row.sampling else None
            at = f"/vector/{place}"
            yield Scored(
                variant=row.variant,
                role=row.role,
                value=row.score.strict,
                interval=interval,
                shift=row.shift,
                usage=row.usage,
                value_at=f"{at}/score/strict",
                usage_at=f"{at}/usage",
            )


def scores_chart(name: str, what: str, found: Sequence[Scored]) -> Chart | None:
    """Bars of the scores with their 95 % intervals; None without a score."""
    if not found:
        return None
    shown = found[:MAX_BARS]
    data = [
        {
            "variant": label(one.variant),
            "value": one.value,
            "low": max(0.0, one.interval.low) if one.interval else one.value,
            "high": min(1.0, one.interval.high) if one.interval else one.value,
            "end": min(1.0, one.interval.high) if one.interval else one.value,
            "text": percent(one.value),
            "colour": COLOURS[one.role],
        }
        for one in shown
    ]
    margins = beside_names(data, "variant", right=14 + text_width("100.0 %") * 1.15)
    spec = {
        **plot_size(margins, len(data) * _ROW_HEIGHT),
        "data": rows(data),
        "encoding": {"y": _rows_by_name(data)},
        "layer": [
            {
                "mark": {"type": "bar", "height": 18},
                "encoding": {
                    "x": {
                        "field": "value",
                        "type": "quantitative",
                        "scale": {"domain": [0, 1]},
                        "axis": {"format": "~%", "title": f"{what}, with 95 % interval", "tickCount": 5},
                    },
                    "color": {"field": "colour", "type": "nominal", "scale": None},
                },
            },
            *_error_bars("low", "high"),
            {
                "mark": {"type": "text", "align": "left", "dx": 7, "fontWeight": "bold"},
                "encoding": {"x": {"field": "end", "type": "quantitative"}, "text": {"field": "text"}},
            },
        ],
    }
    said = "; ".join(f"{one['variant']} {one['text']}" for one in data)
    return draw(name, f"{what} by variant", f"Bars, the highest first: {said}.", spec, margins)


def shifts_chart(name: str, what: str, baseline: str, found: Sequence[Scored]) -> Chart | None:
    """Differences from the baseline with their intervals around a line at zero; None without a difference."""
    shown = [one for one in found if one.shift and one.shift.shift is not None and one.role == "candidate"]
    shown = sorted(shown, key=lambda one: -_points(one))[:MAX_BARS]
    if not shown:
        return None
    data: list[dict[str, Any]] = [
        {
            "variant": label(one.variant),
            "value": 100 * _points(one),
            "low": 100 * one.shift.sampling.low if one.shift and one.shift.sampling else None,
            "high": 100 * one.shift.sampling.high if one.shift and one.shift.sampling else None,
            "text": points(_points(one)),
        }
        for one in shown
    ]
    ends = [abs(end) for one in data for end in (one["low"], one["high"], one["value"]) if end is not None]
    reach = 1.15 * max([5.0, *map(float, ends)])
    margins = beside_names(data, "variant", right=20)
    spec = {
        **plot_size(margins, len(data) * (_ROW_HEIGHT + 8)),
        "data": rows(data),
        "encoding": {"y": _rows_by_name(data)},
        "layer": [
            {
                "data": rows([{"zero": 0}]),
                "mark": {"type": "rule", "color": "var(--baseline)", "strokeWidth": 2},
                "encoding": {
                    "x": {"field": "zero", "type": "quantitative"},
                    "y": {"value": 0},
                    "y2": _bottom(),
                },
            },
            *_error_bars("low", "high"),
            {
                "mark": {
                    "type": "point",
                    "filled": True,
                    "size": 90,
                    "color": "var(--candidate)",
                    "opacity": 1,
                },
                "encoding": {
                    "x": {
                        "field": "value",
                        "type": "quantitative",
                        "scale": {"domain": [-reach, reach], "nice": False},
                        "axis": {
                            "format": "+d",
                            "tickMinStep": 1,
                            "title": f"Points above (+) or below (−) {label(baseline, 24)}",
                            "tickCount": 6,
                        },
                    }
                },
            },
            {
                "mark": {"type": "text", "dy": -13, "fontWeight": "bold"},
                "encoding": {"x": {"field": "value", "type": "quantitative"}, "text": {"field": "text"}},
            },
        ],
    }
    said = "; ".join(f"{one['variant']} {one['text']} points" for one in data)
    title = f"Difference from {label(baseline)}: {what}"
    return draw(name, title, f"Points with 95 % intervals around a line at zero: {said}.", spec, margins)


def _points(one: Scored) -> float:
    return one.shift.shift if one.shift and one.shift.shift is not None else 0.0


def beside_names(data: Sequence[Mapping[str, Any]], field: str, right: float) -> Margins:
    """Room for the names left of horizontal bars."""
    return Margins(left=14 + max(text_width(one[field]) for one in data), right=right)


def plot_size(margins: Margins, height: float) -> dict[str, float]:
    """A plot beside its names; charts with long names get wider, not narrower in their bars."""
    return {"width": max(240, WIDTH + 64 - margins.left - margins.right), "height": height}


def _rows_by_name(data: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {
        "field": "variant",
        "type": "nominal",
        "sort": [one["variant"] for one in data],
        "axis": {"title": None, "domain": False, "ticks": False},
    }


def _bottom() -> dict[str, Any]:
    return {"value": {"expr": "height"}}


def _error_bars(low: str, high: str) -> list[dict[str, Any]]:
    ends = {"x": {"field": low, "type": "quantitative"}, "x2": {"field": high}}
    known = [{"filter": f"datum.{low} != null && datum.{low} < datum.{high}"}]
    tick = {"type": "tick", "thickness": 2, "size": 10, "color": "var(--ink)"}
    return [
        {
            "transform": known,
            "mark": {"type": "rule", "strokeWidth": 2, "color": "var(--ink)"},
            "encoding": ends,
        },
        *(
            {"transform": known, "mark": tick, "encoding": {"x": {"field": end, "type": "quantitative"}}}
            for end in (low, high)
        ),
    ]
