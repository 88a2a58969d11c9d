"""Which jar has to go when there is no room."""

from collections.abc import Mapping

from larder.jar import Jar


def pick(jars: Mapping[str, Jar], now: int) -> str | None:
    """Returns the label of the jar to throw away, or None if all must stay."""
    spoiled = [label for label, jar in jars.items() if jar.spoiled(now)]
    if spoiled:
        return min(spoiled, key=lambda label: jars[label].best_before or 0)
    free = [label for label, jar in jars.items() if not jar.noted]
    if not free:
        return None
    return min(free, key=lambda label: jars[label].read)
