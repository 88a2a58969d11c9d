"""Text from outside, made safe to print: it cannot move the cursor, change colours or reorder a line."""

import re
import unicodedata

_EMPTY_LINES = re.compile(r"\n([ \t]*\n){2,}")
_KEPT = frozenset("\n\t")
_HIDDEN = frozenset({"Cc", "Cf", "Co", "Cs", "Zl", "Zp"})
"""Controls, format characters (bidirectional marks among them), surrogates, line and paragraph separators."""


def printable(text: str) -> str:
    """`text` with control, format and bidirectional characters as `\\uXXXX`; tabs and newlines stay."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_shown(character) for character in text)


def one_line(text: str, limit: int) -> str:
    """`printable` text on one line, at most `limit` characters; an ellipsis tells that something is cut."""
    # Cut before it is joined: a line of 10 MB costs no more than a short one.
    words = " ".join(printable(text[: 4 * limit]).split())
    return words if len(words) <= limit and len(text) <= 4 * limit else words[: limit - 1] + "…"


def shortened(text: str, limit: int) -> str:
    """`printable` text of at most `limit` characters; says how many were left out.

    Of several empty lines one stays: what an agent saw is often a whole screen with nothing on it.
    """
    shown = _EMPTY_LINES.sub("\n\n", printable(text[:limit]))
    if len(text) <= limit:
        return shown
    return f"{shown}\n… {len(text) - limit:,} more characters; --json prints all"


def _shown(character: str) -> str:
    if character in _KEPT or unicodedata.category(character) not in _HIDDEN:
        return character
    return f"\\u{ord(character):04x}" if ord(character) < 0x10000 else f"\\U{ord(character):08x}"
