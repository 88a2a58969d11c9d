"""Compares the agent's reorder.txt with the right one; exit status 0 if they are the same."""

import sys
from pathlib import Path

EXPECTED = ["Washer\t485", "Bolt, M6\t80", "Grease\t10", "Spanner\t4"]

try:
    lines = Path("/app/reorder.txt").read_text().splitlines()
except (OSError, ValueError) as error:
    sys.exit(f"/app/reorder.txt cannot be read: {error}")
if lines != EXPECTED:
    sys.exit(f"/app/reorder.txt has {lines!r} instead of {EXPECTED!r}")
