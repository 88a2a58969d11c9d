"""Compares the agent's stock.json with the right one; exit status 0 if they say the same."""

import json
import sys

with open("/tests/expected.json") as file:
    expected = json.load(file)
try:
    with open("/app/stock.json") as file:
        stock = json.load(file)
except (OSError, ValueError) as error:
    sys.exit(f"/app/stock.json cannot be read: {error}")
if stock != expected:
    sys.exit(f"/app/stock.json is {stock!r} instead of {expected!r}")
