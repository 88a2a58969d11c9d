"""Panels with axes as vector graphics, drawn by Vega-Lite from what Prometheus answered.

Grafana itself is under the AGPL, and no package registry ships it: these pictures show a panel's data, title
and unit, not Grafana's own looks.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from typing import Any

import vl_convert

from scripts.dashboards.prometheus import Sample

INK, FAINT = "#d8d9da", "#3a3f47"
COLOURS = ("#73bf69", "#5794f2", "#f2cc0c", "#ff780a", "#f2495c", "#b877d9", "#8ab8ff", "#fade2a", "#c0d8ff")
_LEGEND_ROW, _LEGEND_CHARACTERS = 16, 7
_UNITS = {"percentunit": ".0%", "s": "~s", "currencyUSD": "$~r", "bytes": "~s", "reqps": "~r"}
_CONFIG: dict[str, Any] = {
    "background": "transparent",
    "font": "DejaVu Sans",
    "view": {"stroke": None},
    "axis": {
        "labelColor": INK,
        "titleColor": INK,
        "gridColor": FAINT,
        "domainColor": FAINT,
        "tickColor": FAINT,
        "labelFontSize": 11,
        "titleFontSize": 11,
        "titleFontWeight": "normal",
    },
    "legend": {
        "labelColor": INK,
        "labelFontSize": 11,
        "labelLimit": 260,
        "symbolStrokeWidth": 3,
    },
    "range": {"category": list(COLOURS)},
}


@dataclass(frozen=True, slots=True)
class Box:
    """Room for a drawing, in pixels, axes and legend included."""

    width: int
    height: int


Named = Sequence[tuple[str, Sample]]
"""Series with their legends."""


def lines(series: Named, unit: str, box: Box, *, stacked: bool) -> str:
    """Lines over time, or areas on top of each other."""
    values = [
        {"series": name, "time": moment * 1000, "value": value}
        for name, one in series
        for moment, value in _with_gaps(_points(one))
    ]
    mark: dict[str, Any] = (
        {"type": "area", "opacity": 0.75} if stacked else {"type": "line", "strokeWidth": 1.5}
    )
    # A series that was seen once is a point, which no line shows.
    spec = {
        "data": {"values": values},
        "mark": {**mark, "point": False if stacked else {"size": 8}},
        "encoding": {
            "x": {
                "field": "time",
                "type": "temporal",
                "title": None,
                "axis": {"format": "%H:%M:%S", "labelOverlap": "greedy", "labelSeparation": 10},
            },
            "y": {
                "field": "value",
                "type": "quantitative",
                "title": None,
                "stack": "zero" if stacked else None,
                "axis": {"format": _UNITS.get(unit, "~r"), "tickCount": 5},
                "scale": _from_zero(value for _, one in series for _, value in _points(one)),
            },
            "color": _colour([name for name, _ in series], box, "square" if stacked else "stroke"),
        },
    }
    return _drawn(spec, box)


def bars(series: Named, unit: str, box: Box) -> str:
    """The last value of each series as a bar with its number."""
    found = [(name, points[-1][1]) for name, one in series if (points := _points(one))]
    values = [
        {"series": name, "value": value, "place": place, "text": text(value, unit, None)}
        for place, (name, value) in enumerate(found)
    ]
    sort = {"field": "series", "type": "nominal", "sort": {"field": "place"}, "title": None}
    shared = {
        "y": {**sort, "axis": {"labelLimit": 0.5 * box.width, "domain": False, "ticks": False}},
        "x": {
            "field": "value",
            "type": "quantitative",
            "axis": None,
            "scale": {"domainMin": 0, "padding": 46, "nice": False},
        },
    }
    layers = [
        {"mark": {"type": "bar", "color": COLOURS[0], "cornerRadiusEnd": 2}, "encoding": shared},
        {
            "mark": {"type": "text", "align": "left", "dx": 4, "color": INK},
            "encoding": {**shared, "text": {"field": "text"}},
        },
    ]
    return _drawn({"data": {"values": values}, "layer": layers}, box)


def states(series: Named, box: Box) -> str:
    """When each series was 1."""
    values = [
        {"series": name, "from": start * 1000, "to": end * 1000}
        for name, one in series
        for start, end in _spans(_points(one))
    ]
    time = {
        "type": "temporal",
        "title": None,
        "axis": {"format": "%H:%M:%S", "labelOverlap": "greedy", "labelSeparation": 10, "tickCount": 4},
    }
    spec = {
        "data": {"values": values},
        "mark": {"type": "bar", "height": {"band": 0.7}, "color": COLOURS[1]},
        "encoding": {
            "x": {"field": "from", **time},
            "x2": {"field": "to"},
            "y": {"field": "series", "type": "nominal", "title": None, "axis": {"ticks": False}},
        },
    }
    return _drawn(spec, box)


def scatter(rows: Iterable[Mapping[str, Any]], x: tuple[str, str], y: tuple[str, str], box: Box) -> str:
    """A named point for each row; `x` and `y` are title and unit, and the rows' keys are the titles."""
    values = [
        {"x": row[x[0]], "y": row[y[0]], "name": row["variant"]}
        for row in rows
        if x[0] in row and y[0] in row
    ]

    def axis(title: str, unit: str) -> dict[str, Any]:
        return {
            "type": "quantitative",
            "title": title,
            "axis": {"format": _UNITS.get(unit, "~s"), "tickCount": 5},
            "scale": {"zero": True, "nice": True, "padding": 14},
        }

    shared = {"x": {"field": "x", **axis(*x)}, "y": {"field": "y", **axis(*y)}}
    colour = {"field": "name", "type": "nominal", "legend": None}
    layers = [
        {"mark": {"type": "point", "filled": True, "size": 90}, "encoding": {**shared, "color": colour}},
        {
            "mark": {"type": "text", "dy": -11, "color": INK, "align": "center"},
            "encoding": {**shared, "text": {"field": "name"}},
        },
    ]
    return _drawn({"data": {"values": values}, "layer": layers}, box)


def text(value: float, unit: str, decimals: int | None) -> str:
    """A number as a person reads it."""
    if not math.isfinite(value):
        return "–"
    if unit == "percentunit":
        return f"{value:.{1 if decimals is None else decimals}%}"
    if unit == "currencyUSD":
        return f"${value:,.{2 if decimals is None else decimals}f}"
    if unit == "s":
        return _duration(value)
    if unit == "bytes":
        return f"{value / 2**20:,.0f} MiB"
    if decimals is not None:
        return f"{value:,.{decimals}f}"
    return f"{value:,.0f}" if value == int(value) or abs(value) >= 1000 else f"{value:,.3g}"


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s"


def _from_zero(values: Iterable[float]) -> dict[str, Any]:
    """A scale from 0; up to 1 where there is nothing else to show."""
    empty = max(values, default=0.0) == 0
    return {"domain": [0, 1]} if empty else {"domainMin": 0, "nice": True}


def _colour(names: Sequence[str], box: Box, symbol: str) -> dict[str, Any]:
    widest = max((len(name) for name in names), default=1) * _LEGEND_CHARACTERS + 24
    columns = max(1, box.width // widest)
    legend = {"orient": "bottom", "title": None, "columns": columns, "symbolType": symbol}
    return {"field": "series", "type": "nominal", "legend": legend, "sort": None}


def _points(sample: Sample) -> list[tuple[float, float]]:
    pairs = sample.get("values") or ([sample["value"]] if "value" in sample else [])
    return [(float(moment), value) for moment, number in pairs if math.isfinite(value := float(number))]


def _with_gaps(points: Sequence[tuple[float, float]]) -> Iterator[tuple[float, float | None]]:
    """The points, and None where some are missing: no line bridges what was not there."""
    step = min((after[0] - one[0] for one, after in pairwise(points)), default=0.0)
    for one, after in zip_longest(points, points[1:]):
        yield one
        if after is not None and after[0] - one[0] > 1.5 * step:
            yield one[0] + step, None


def _spans(points: Sequence[tuple[float, float]]) -> Iterator[tuple[float, float]]:
    """From when to when the value was 1; one empty span first, so that a series that never was is named."""
    yield points[0][0], points[0][0]
    start: float | None = None
    for moment, value in points:
        if value == 1:
            start = moment if start is None else start
        elif start is not None:
            yield start, moment
            start = None
    if start is not None:
        yield start, points[-1][0]


def _drawn(spec: Mapping[str, Any], box: Box) -> str:
    document = {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "width": box.width,
        "height": box.height,
        "autosize": {"type": "fit", "contains": "padding"},
        "config": _CONFIG,
        **spec,
    }
    return str(vl_convert.vegalite_to_svg(document, show_warnings=False))
