"""The cache itself."""

from typing import Any

from larder.jar import Jar
from larder.shelves import pick


class LarderFull(Exception):
    """Nothing may be thrown away, so there is no room."""


class Larder:
    """Keeps at most `shelves` values by label."""

    def __init__(self, shelves: int) -> None:
        self._shelves = shelves
        self._jars: dict[str, Jar] = {}
        self._now = 0

    def store(self, label: str, value: Any, keeps_for: int | None = None, noted: bool = False) -> None:
        """Stores a value, if need be in place of another one; LarderFull if all others must stay."""
        self._now += 1
        if label not in self._jars and len(self._jars) >= self._shelves:
            victim = pick(self._jars, self._now)
            if victim is None:
                raise LarderFull(label)
            del self._jars[victim]
        best_before = None if keeps_for is None else self._now + keeps_for
        self._jars[label] = Jar(value, self._now, self._now, best_before, noted)

    def fetch(self, label: str) -> Any:
        """Returns a value, or None; a spoiled one stays on its shelf but is not returned."""
        self._now += 1
        jar = self._jars.get(label)
        if jar is None or jar.spoiled(self._now):
            return None
        jar.read = self._now
        return jar.value
