"""Places the labels of points so that none covers another; one without room is left to the table."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

_CHARACTER, _HEIGHT, _GAP = 7.2, 16.0, 9.0
"""Widths and heights of text in pixels, on the generous side: browsers differ in their fonts."""

type Box = tuple[float, float, float, float]
"""Left, top, right, bottom."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A text at a place in pixels; of a label its left end and its middle. An empty text found no room."""

    x: float
    y: float
    text: str

    @property
    def box(self) -> Box:
        """What the text covers."""
        half = _HEIGHT / 2
        return self.x, self.y - half, self.x + _CHARACTER * len(self.text), self.y + half


def stairs(points: Sequence[tuple[float, float]]) -> list[Box]:
    """What a line covers that goes from each point to the right, then up or down to the next."""
    found = []
    for (x, y), (next_x, next_y) in pairwise(points):
        found.append((x, y - 3, next_x, y + 3))
        found.append((next_x - 3, min(y, next_y), next_x + 3, max(y, next_y)))
    return found


def place_labels(
    points: Sequence[Placed], width: float, height: float, covered: Sequence[Box] = ()
) -> list[Placed]:
    """A label for each point, in their order, inside a plot of that size and off what is covered."""
    taken = [*covered, *((one.x - 6, one.y - 6, one.x + 6, one.y + 6) for one in points)]
    found: list[Placed] = []
    for one in points:
        length = _CHARACTER * len(one.text)
        spots = [
            (one.x + _GAP, one.y),
            (one.x - _GAP - length, one.y),
            *((one.x + side, one.y + step) for step in (-18, 18, -34, 34) for side in (_GAP, -_GAP - length)),
        ]
        labels = (Placed(x, y, one.text) for x, y in spots)
        free = (label for label in labels if _fits(label, taken, width, height))
        chosen = next(free, Placed(one.x, one.y, ""))
        if chosen.text:
            taken.append(chosen.box)
        found.append(chosen)
    return found


def _fits(label: Placed, taken: Sequence[Box], width: float, height: float) -> bool:
    left, top, right, bottom = label.box
    if left < 2 or right > width or top < 0 or bottom > height:
        return False
    return not any(
        left < other[2] and right > other[0] and top < other[3] and bottom > other[1] for other in taken
    )
