"""One entry of the cache."""

from dataclasses import dataclass
from typing import Any


@dataclass
class Jar:
    """A value with what the larder knows about it. Times are ticks of the larder's own clock."""

    value: Any
    stored: int
    read: int
    best_before: int | None = None
    noted: bool = False

    def spoiled(self, now: int) -> bool:
        """Whether the value is past its date."""
        return self.best_before is not None and now > self.best_before
