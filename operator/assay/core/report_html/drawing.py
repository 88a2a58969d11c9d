"""Draws Vega-Lite charts as SVG that follows the page's colours and that no text from outside can break."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

import vl_convert
from markupsafe import Markup

from assay.core.terminal_text import one_line

WIDTH = 440
"""Of a plot, in CSS pixels; the page scales it down where there is less room."""
_SVG = "{http://www.w3.org/2000/svg}"
_ELEMENTS = frozenset({"svg", "g", "path", "line", "text", "tspan", "rect", "circle"})
_DROPPED = frozenset({"class", "role", "pointer-events", "version", "width", "height", "clip-path"})
"""Clip paths are numbered through the life of the process; ours have nothing to clip."""
_FONT_SIZE = 13
_NUMBER = re.compile(r"-?\d+\.\d{3,}")

CONFIG: dict[str, Any] = {
    "background": None,
    "font": "sans-serif",
    "view": {"stroke": None},
    "axis": {
        "labelColor": "var(--ink)",
        "titleColor": "var(--muted)",
        "titleFontWeight": "normal",
        "labelFontSize": _FONT_SIZE,
        "titleFontSize": _FONT_SIZE,
        "gridColor": "var(--line)",
        "domainColor": "var(--line)",
        "tickColor": "var(--line)",
        "labelLimit": 0,
    },
    "text": {"fontSize": _FONT_SIZE, "color": "var(--ink)", "limit": 0},
}


@dataclass(frozen=True, slots=True)
class Chart:
    """A drawn chart. `description` says in words what it shows; a table beside it has the numbers."""

    name: str
    title: str
    description: str
    svg: Markup
    legend: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Margins:
    """Room around a plot, in CSS pixels."""

    left: float = 52
    right: float = 12
    top: float = 10
    bottom: float = 46


def text_width(text: str) -> float:
    """How wide a text can get in a browser, in pixels; on the generous side."""
    return 7.6 * len(text)


def draw(
    name: str,
    title: str,
    description: str,
    spec: Mapping[str, Any],
    margins: Margins,
    legend: Sequence[str] = (),
) -> Chart:
    """The chart of a Vega-Lite specification; colours in it are CSS variables of the page.

    Nothing is laid out by the width of a text: fonts differ between machines, and the same report shall give
    the same bytes and cut nothing off.
    """
    padding = {"left": margins.left, "right": margins.right, "top": margins.top, "bottom": margins.bottom}
    document = {"config": CONFIG, "padding": padding, "autosize": {"type": "none"}, **spec}
    drawn = vl_convert.vegalite_to_svg(document, show_warnings=False)
    root = ElementTree.fromstring(drawn)  # noqa: S314  our own drawing, and expat refuses entity bombs
    width, height = root.attrib["width"], root.attrib["height"]
    svg = _clean(root)
    svg.set("viewBox", f"0 0 {width} {height}")
    svg.set("width", width)
    svg.set("height", height)
    svg.set("role", "img")
    svg.set("aria-labelledby", f"{name}-title {name}-description")
    for place, (tag, text) in enumerate((("title", title), ("desc", description))):
        element = ElementTree.Element(_SVG + tag, id=f"{name}-{'title' if tag == 'title' else 'description'}")
        element.text = text
        svg.insert(place, element)
    ElementTree.register_namespace("", _SVG.strip("{}"))
    text = ElementTree.tostring(svg, encoding="unicode")
    return Chart(name, title, description, Markup(text), legend)  # noqa: S704  what _clean let through


def label(text: str, limit: int = 40) -> str:
    """Text from outside as a chart may hold it."""
    return one_line(text, limit)


def rows(found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Inline data of a specification."""
    return {"values": list(found)}


def _clean(element: ElementTree.Element) -> ElementTree.Element:
    """The element with what draws, and nothing else: no script, link, style or event can come through."""
    kept = ElementTree.Element(element.tag, {key: _short(value) for key, value in _attributes(element)})
    kept.text = element.text
    for child in element:
        if child.tag.removeprefix(_SVG) in _ELEMENTS and child.get("display") != "none":
            cleaned = _clean(child)
            if len(cleaned) or cleaned.text or cleaned.tag != f"{_SVG}g":
                kept.append(cleaned)
    return kept


def _attributes(element: ElementTree.Element) -> list[tuple[str, str]]:
    return [
        (key, value)
        for key, value in element.items()
        if key not in _DROPPED and not key.startswith(("aria-", "on", "{", "href", "style", "id"))
    ]


def _short(value: str) -> str:
    """Coordinates have sixteen digits; a hundredth of a pixel is enough."""
    return _NUMBER.sub(lambda found: f"{float(found[0]):.2f}".rstrip("0").rstrip("."), value)
