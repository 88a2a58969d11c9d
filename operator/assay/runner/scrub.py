"""Secrets out of everything that leaves the pod (cases.md BAR 11).

Known values are removed wherever they stand; unknown ones by the shape that providers give their keys. What
replaces them holds no quote and no backslash, so that a JSON document stays one.

Text is searched for a few fixed beginnings, and a pattern is tried only there: a log of hundreds of megabytes
has to pass within the upload's deadline.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

HOLD_BACK = 8192
"""Bytes kept until more is seen, so that a secret across two pieces is found; no match may be longer."""

_WINDOW = 1 << 18
_LINE = 1024
_MINIMAL_SECRET = 8


@dataclass(frozen=True, slots=True)
class _Shape:
    """A kind of key: how it begins, in lower case, and a pattern whose first group is the secret."""

    kind: str
    beginning: bytes
    pattern: re.Pattern[bytes]


_SHAPES = (
    _Shape("anthropic", b"sk-ant-", re.compile(rb"(?<![A-Za-z0-9])(sk-ant-[A-Za-z0-9_-]{4,512})")),
    _Shape(
        "openai",
        b"sk-",
        re.compile(
            rb"(?<![A-Za-z0-9])(sk-(?:(?:proj|svcacct|admin)-[A-Za-z0-9_-]{4,512}"
            rb"|(?=[A-Za-z_-]{0,64}[0-9])[A-Za-z0-9_-]{20,512}))"
        ),
    ),
    _Shape("google", b"aizasy", re.compile(rb"(?<![A-Za-z0-9])(AIzaSy[A-Za-z0-9_-]{6,128})")),
    _Shape("aws", b"akia", re.compile(rb"(?<![A-Za-z0-9])(AKIA[A-Z0-9]{12,64})")),
    _Shape("aws", b"asia", re.compile(rb"(?<![A-Za-z0-9])(ASIA[A-Z0-9]{12,64})")),
    _Shape(
        "jwt",
        b"eyj",
        re.compile(rb"(eyJ[A-Za-z0-9_-]{8,3072}\.eyJ[A-Za-z0-9_-]{8,3072}\.[A-Za-z0-9_-]{8,1024})"),
    ),
    _Shape(
        "bearer",
        b"bearer",
        re.compile(
            rb"(?i:bearer)[ \t]{1,8}((?=[^\s\"'\\]{0,64}[0-9])[A-Za-z0-9._~+/=-]{6,4096}"
            rb"|[A-Za-z0-9._~+/=-]{20,4096})"
        ),
    ),
    _Shape(
        "header",
        b"x-api-key",
        re.compile(
            rb"(?i:x-api-key)(?:\\?[\"'])?[ \t]{0,8}[:=][ \t]{0,8}(?:\\?[\"'])?([^\s\"',}\\\[]{1,512})"
        ),
    ),
)


@dataclass(slots=True)
class _Found:
    """A secret in a buffer; `begin` is where what made it one begins."""

    begin: int
    start: int
    end: int
    kind: str


class Scrubber:
    """Replaces secrets in bytes. Values may be added while it is in use (a projected token rotates)."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._values: set[bytes] = set()
        for value in values:
            self.add(value)

    def add(self, value: str) -> None:
        """Remove this value from now on. One of under 8 characters is ignored: it would hit ordinary text."""
        if len(value) >= _MINIMAL_SECRET:
            escaped = json.dumps(value)[1:-1].encode()
            self._values |= {known for known in (value.encode(), escaped) if len(known) < HOLD_BACK}

    def scrub(self, data: bytes) -> bytes:
        """`data` without secrets."""
        return b"".join(self.stream((data,)))

    def scrub_text(self, text: str) -> str:
        """`text` without secrets."""
        return self.scrub(text.encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")

    def stream(self, pieces: Iterable[bytes], *, unfinished: bool = False) -> Iterator[bytes]:
        """The same over pieces of any size, in memory that does not grow with their number.

        Of what is `unfinished`, the last line is held back while it is short: half a secret looks like none.
        """
        buffer = b""
        for piece in pieces:
            buffer += piece
            if len(buffer) >= _WINDOW:
                found = self._find(buffer)
                cut = _safe_cut(buffer, found)
                yield _replaced(buffer[:cut], [secret for secret in found if secret.end <= cut])
                buffer = buffer[cut:]
        if buffer:
            found = self._find(buffer)
            cut = _whole_lines(buffer, found) if unfinished else len(buffer)
            yield _replaced(buffer[:cut], [secret for secret in found if secret.end <= cut])

    def _find(self, data: bytes) -> list[_Found]:
        """Every secret in `data`, in order, those that overlap as one."""
        lowered = data.lower()
        found = [
            _Found(at, at, at + len(value), "known") for value in self._values for at in _places(data, value)
        ]
        for shape in _SHAPES:
            for at in _places(lowered, shape.beginning):
                if match := shape.pattern.match(data, at):
                    found.append(_Found(at, match.start(1), match.end(1), shape.kind))
        merged: list[_Found] = []
        for secret in sorted(found, key=lambda each: (each.start, -each.end)):
            if merged and secret.start < merged[-1].end:
                merged[-1].begin = min(merged[-1].begin, secret.begin)
                merged[-1].end = max(merged[-1].end, secret.end)
            else:
                merged.append(secret)
        return merged


def _places(data: bytes, wanted: bytes) -> Iterator[int]:
    at = data.find(wanted)
    while at >= 0:
        yield at
        at = data.find(wanted, at + 1)


def _whole_lines(buffer: bytes, found: list[_Found]) -> int:
    """End of the last whole line, or of what a secret in an endless line cannot reach."""
    return _before_secret(max(buffer.rfind(b"\n") + 1, len(buffer) - HOLD_BACK), found)


def _safe_cut(buffer: bytes, found: list[_Found]) -> int:
    """A position that no secret crosses. Secrets are shorter than what is held back, so they are complete."""
    cut = len(buffer) - HOLD_BACK
    # Preferably at a line's end, because what stands before a key decides whether it is one.
    cut = buffer.rfind(b"\n", cut - _LINE, cut) + 1 or cut
    return _before_secret(cut, found)


def _before_secret(cut: int, found: list[_Found]) -> int:
    for secret in reversed(found):
        if secret.begin < cut < secret.end:
            cut = secret.begin
    return cut


def _replaced(data: bytes, found: list[_Found]) -> bytes:
    parts, done = [], 0
    for secret in found:
        parts += [data[done : secret.start], b"[scrubbed:%s]" % secret.kind.encode()]
        done = secret.end
    return b"".join([*parts, data[done:]])
