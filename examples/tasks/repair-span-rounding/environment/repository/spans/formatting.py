"""From seconds to text."""

from spans.units import UNITS


def format_span(seconds: int, most_units: int = 5) -> str:
    """Returns seconds as text such as `1h30m`, with at most `most_units` units that are not zero."""
    parts = []
    for unit, size in UNITS.items():
        count, seconds = divmod(seconds, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts[:most_units]) or "0s"
