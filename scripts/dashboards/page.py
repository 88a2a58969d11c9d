"""A dashboard as an HTML page: each panel at its place in Grafana's grid, with what a Prometheus answered."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from scripts.dashboards import charts
from scripts.dashboards.charts import Box, Named
from scripts.dashboards.prometheus import Prometheus, Sample
from scripts.dashboards.questions import PanelQuestion, View

WIDTH = 1440
_COLUMN, _ROW, _GAP, _TITLE = 59.5, 36, 8, 30
_LEFT = 6

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Cell:
    """A text with its colour; figures stand to the right."""

    text: str
    colour: str = ""
    figure: bool = False
    name: str = ""


@dataclass(slots=True)
class Drawn:
    """A panel as the page shows it: numbers, a table, or a drawing."""

    title: str
    kind: str
    x: float
    y: float
    width: float
    height: float
    numbers: list[Cell] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)
    figures: set[str] = field(default_factory=set)
    rows: list[list[Cell]] | None = None
    drawing: Markup | None = None


def render_page(title: str, panels: Iterable[PanelQuestion], prometheus: Prometheus, view: View) -> str:
    """The page. Raises QueryError."""
    drawn = [_draw(panel, prometheus, view) for panel in panels]
    folder = Path(__file__).parent
    environment = Environment(loader=FileSystemLoader(folder), autoescape=True, undefined=StrictUndefined)
    return environment.get_template("page.html.j2").render(
        title=title,
        chosen=f"{view.namespace} / {view.run}",
        width=WIDTH,
        height=max(one.y + one.height for one in drawn) + _GAP,
        panels=drawn,
    )


def _draw(panel: PanelQuestion, prometheus: Prometheus, view: View) -> Drawn:
    kind, place = str(panel.definition["type"]), panel.definition["gridPos"]
    drawn = Drawn(
        panel.title,
        kind,
        x=_LEFT + place["x"] * _COLUMN,
        y=place["y"] * _ROW,
        width=place["w"] * _COLUMN - _GAP,
        height=place["h"] * _ROW - _GAP,
    )
    series: list[tuple[str, Sample]] = []
    by_ref: dict[str, list[Sample]] = {}
    for target in panel.targets:
        answer = view.ask(prometheus, target)
        by_ref[target.ref] = answer
        series += [(target.named(one["metric"]), one) for one in answer]
    defaults = panel.definition.get("fieldConfig", {}).get("defaults", {})
    box = Box(round(drawn.width) - 14, round(drawn.height) - _TITLE)
    if kind == "stat":
        drawn.numbers = [_number(name, one, defaults) for name, one in series]
    elif kind in ("table", "xychart"):
        merged = _merged(panel, by_ref)
        if kind == "table":
            _fill_table(drawn, panel, merged)
        else:
            drawn.drawing = _scatter(panel, merged, box)
    elif kind in _DRAWINGS:
        drawn.drawing = Markup(_DRAWINGS[kind](series, panel.definition, box))  # noqa: S704  our own drawing
    elif kind != "row":
        raise NotImplementedError(f"panel {panel.title}: {kind} is not drawn yet")
    return drawn


def _lines(series: Named, definition: Json, box: Box) -> str:
    defaults = definition["fieldConfig"]["defaults"]
    stacking = defaults.get("custom", {}).get("stacking", {}).get("mode")
    return charts.lines(series, defaults.get("unit", "short"), box, stacked=stacking == "normal")


def _bars(series: Named, definition: Json, box: Box) -> str:
    return charts.bars(series, definition["fieldConfig"]["defaults"].get("unit", "short"), box)


def _states(series: Named, definition: Json, box: Box) -> str:
    return charts.states(series, box)


_DRAWINGS = {"timeseries": _lines, "bargauge": _bars, "state-timeline": _states}


def _number(name: str, sample: Sample, defaults: Json) -> Cell:
    value = float(sample["values"][-1][1]) if sample.get("values") else float("nan")
    text = charts.text(value, defaults.get("unit", "short"), defaults.get("decimals"))
    return Cell(text, _colour(value, defaults.get("thresholds")), name=name)


def _colour(value: float, thresholds: Json | None) -> str:
    colour = ""
    for step in (thresholds or {}).get("steps", []):
        bound = step.get("value")
        if bound is None or value >= bound:
            colour = step["color"]
    return colour


def _merged(panel: PanelQuestion, by_ref: Mapping[str, Sequence[Sample]]) -> list[dict[str, Any]]:
    """Grafana's `merge`: one row for each set of labels, one field for each query, by its new name."""
    (organize,) = [one for one in panel.definition["transformations"] if one["id"] == "organize"]
    names = organize["options"]["renameByName"]
    rows: dict[tuple[tuple[str, str], ...], dict[str, Any]] = {}
    for ref, samples in by_ref.items():
        for sample in samples:
            labels = tuple(sorted(sample["metric"].items()))
            row = rows.setdefault(labels, {names.get(key, key): value for key, value in labels})
            row[names[f"Value #{ref}"]] = float(sample["value"][1])
    return list(rows.values())


def _fill_table(drawn: Drawn, panel: PanelQuestion, rows: Sequence[Mapping[str, Any]]) -> None:
    (organize,) = [one for one in panel.definition["transformations"] if one["id"] == "organize"]
    renamed, places = organize["options"]["renameByName"], organize["options"]["indexByName"]
    drawn.columns = [renamed[name] for name in sorted(renamed, key=places.__getitem__)]
    styles = {
        one["matcher"]["options"]: {item["id"]: item["value"] for item in one["properties"]}
        for one in panel.definition["fieldConfig"]["overrides"]
    }
    drawn.figures = set(styles)
    for order in panel.definition.get("options", {}).get("sortBy", []):
        name = order["displayName"]
        rows = sorted(rows, key=lambda row, name=name: row.get(name, 0), reverse=order["desc"])  # type: ignore[misc]
    drawn.rows = [[_cell(row.get(name), styles.get(name)) for name in drawn.columns] for row in rows]


def _cell(value: Any, style: Json | None) -> Cell:
    if value is None or style is None:
        return Cell("" if value is None else str(value), figure=style is not None)
    text = charts.text(value, style.get("unit", "short"), style.get("decimals"))
    return Cell(text, _colour(value, style.get("thresholds")), figure=True)


def _scatter(panel: PanelQuestion, rows: Sequence[Mapping[str, Any]], box: Box) -> Markup:
    fields = [
        (
            one["matcher"]["options"],
            next(item["value"] for item in one["properties"] if item["id"] == "unit"),
        )
        for one in panel.definition["fieldConfig"]["overrides"]
    ]
    return Markup(charts.scatter(rows, fields[0], fields[1], box))  # noqa: S704  our own drawing
