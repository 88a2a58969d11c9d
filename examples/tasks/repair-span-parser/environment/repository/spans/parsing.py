"""From text to seconds."""

import re

from spans.units import UNITS

_PART = re.compile(r"(\d+)([wdhms])")


def parse(text: str) -> int:
    """Returns the seconds of a duration such as `1h30m`; ValueError if the text is none."""
    total = 0
    for count, unit in _PART.findall(text):
        total += int(count) * UNITS[unit]
    if not total:
        raise ValueError(f"not a duration: {text!r}")
    return total
