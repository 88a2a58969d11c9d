"""Durations as people write them, in whole seconds."""

from spans.formatting import format_span
from spans.parsing import parse

__all__ = ["format_span", "parse"]
