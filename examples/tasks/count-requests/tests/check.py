"""Compares the agent's report with the right one; exit status 0 if they say the same."""

import json
import sys

with open("/tests/expected.json") as file:
    expected = json.load(file)
try:
    with open("/app/report.json") as file:
        report = json.load(file)
except (OSError, ValueError) as error:
    sys.exit(f"/app/report.json cannot be read: {error}")
if not isinstance(report, dict):
    sys.exit("/app/report.json is no JSON object")
wrong = [
    f"{key}: {report.get(key)!r} instead of {value!r}"
    for key, value in expected.items()
    if report.get(key) != value
]
sys.exit("\n".join(wrong) or 0)
