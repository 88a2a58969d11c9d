#!/bin/bash
set -eu
python3 - <<'PYTHON'
import csv
import json

with open("/app/stock.csv", newline="") as file:
    rows = list(csv.DictReader(file, delimiter=";"))
for row in rows:
    for field in ("article", "quantity", "minimum"):
        row[field] = int(row[field] or 0)
with open("/app/stock.json", "w") as file:
    json.dump(rows, file, indent=1)
PYTHON
