"""Server-sent events, split without changing a byte."""

import json
import re
from collections.abc import Iterator
from typing import Any

_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")
LARGEST_EVENT = 32 << 20


class EventTooLarge(ValueError):
    """An event exceeds `LARGEST_EVENT` bytes."""


class EventSplitter:
    """Cuts a byte stream into whole events, terminator included."""

    def __init__(self) -> None:
        self._buffer = b""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Events that are complete now. Raises EventTooLarge."""
        searched = max(0, len(self._buffer) - 3)
        self._buffer += data
        while match := _END.search(self._buffer, searched):
            yield self._buffer[: match.end()]
            self._buffer = self._buffer[match.end() :]
            searched = 0
        if len(self._buffer) > LARGEST_EVENT:
            raise EventTooLarge(f"a streamed event has more than {LARGEST_EVENT} bytes")

    @property
    def rest(self) -> bytes:
        """What came after the last whole event."""
        return self._buffer


def event_data(event: bytes) -> str:
    """The data of an event, its lines joined."""
    lines = event.decode("utf-8", "replace").splitlines()
    return "\n".join(line[5:].removeprefix(" ") for line in lines if line.startswith("data:"))


def event_json(event: bytes) -> dict[str, Any] | None:
    """The JSON object that an event carries, or None."""
    try:
        value = json.loads(event_data(event))
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
