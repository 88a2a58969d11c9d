"""The units, largest first, with their length in seconds."""

UNITS = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "s": 1}
