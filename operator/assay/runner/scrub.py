"""Secrets out of everything that leaves the pod (cases.md BAR 11).

Known values are removed wherever they stand; unknown ones by the shape that providers give their keys. What
replaces them holds no quote and no backslash, so that a JSON document stays one.
"""

import json
import re
from collections.abc import Iterable, Iterator

HOLD_BACK = 8192
"""Bytes kept until more is seen, so that a secret across two pieces is found; no match may be longer."""

_SHAPES = re.compile(
    rb"""
      (?P<anthropic> (?<![A-Za-z0-9])sk-ant-[A-Za-z0-9_-]{4,512} )
    | (?P<openai>    (?<![A-Za-z0-9])
                     (?: sk-(?:proj|svcacct|admin)-[A-Za-z0-9_-]{4,512}
                       | sk-(?=[A-Za-z_-]{0,64}[0-9])[A-Za-z0-9_-]{20,512} ) )
    | (?P<google>    (?<![A-Za-z0-9])AIzaSy[A-Za-z0-9_-]{6,128} )
    | (?P<aws>       (?<![A-Za-z0-9])(?:AKIA|ASIA)[A-Z0-9]{12,64} )
    | (?P<jwt>       eyJ[A-Za-z0-9_-]{8,3072}\.eyJ[A-Za-z0-9_-]{8,3072}\.[A-Za-z0-9_-]{8,1024} )
    | (?P<bearer>    (?i:bearer)[ \t]{1,8}
                     (?: (?=[^\s"'\\]{0,64}[0-9])[A-Za-z0-9._~+/=-]{6,4096} | [A-Za-z0-9._~+/=-]{20,4096} ) )
    | (?P<header>    (?i:x-api-key)(?:\\?["'])?[ \t]{0,8}[:=][ \t]{0,8}(?:\\?["'])?[^\s"',}\\\[]{1,512} )
    """,
    re.VERBOSE,
)
_HEADER_VALUE = re.compile(rb"[^\s\"',}\\\[:=]{1,512}$")
_MINIMAL_SECRET = 8
_LINE = 1024


class Scrubber:
    """Replaces secrets in bytes. Values may be added while it is in use (a projected token rotates)."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._values: set[bytes] = set()
        self._literal: re.Pattern[bytes] | None = None
        for value in values:
            self.add(value)

    def add(self, value: str) -> None:
        """Remove this value from now on. One of under 8 characters is ignored: it would hit ordinary text."""
        if not _MINIMAL_SECRET <= len(value) <= HOLD_BACK // 2:
            return
        escaped = json.dumps(value)[1:-1].encode()
        self._values |= {known for known in (value.encode(), escaped) if len(known) < HOLD_BACK}
        longest_first = sorted(self._values, key=len, reverse=True)
        self._literal = re.compile(b"|".join(re.escape(known) for known in longest_first))

    def scrub(self, data: bytes) -> bytes:
        """`data` without secrets."""
        return b"".join(self.stream((data,)))

    def scrub_text(self, text: str) -> str:
        """`text` without secrets."""
        return self.scrub(text.encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")

    def stream(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """The same over pieces of any size, in memory that does not grow with their number."""
        buffer = b""
        for piece in pieces:
            buffer += piece
            if len(buffer) >= 8 * HOLD_BACK:
                cut = self._safe_cut(buffer)
                yield self._replace(buffer[:cut])
                buffer = buffer[cut:]
        if buffer:
            yield self._replace(buffer)

    def _safe_cut(self, buffer: bytes) -> int:
        """A position that no match crosses. Matches are shorter than what is held back, so complete."""
        cut = len(buffer) - HOLD_BACK
        # Preferably at a line's end, because what stands before a key decides whether it is one.
        cut = buffer.rfind(b"\n", cut - _LINE, cut) + 1 or cut
        patterns = [pattern for pattern in (self._literal, _SHAPES) if pattern]
        spans = sorted(match.span() for pattern in patterns for match in pattern.finditer(buffer))
        for start, end in reversed(spans):
            if start < cut < end:
                cut = start
        return cut

    def _replace(self, data: bytes) -> bytes:
        if self._literal:
            data = self._literal.sub(b"[scrubbed:known]", data)
        return _SHAPES.sub(_replacement, data)


def _replacement(match: re.Match[bytes]) -> bytes:
    kind = match.lastgroup or "secret"
    text = match[0]
    if kind == "bearer":
        return text[: len(text) - len(text.split()[-1])] + b"[scrubbed:bearer]"
    if kind == "header":
        return _HEADER_VALUE.sub(b"[scrubbed:header]", text)
    return b"[scrubbed:" + kind.encode() + b"]"
