#!/bin/bash
set -eu
python3 - <<'PYTHON'
import json

with open("/app/stock.json") as file:
    missing = [(row["minimum"] - row["quantity"], row["article"], row["name"]) for row in json.load(file)]
with open("/app/reorder.txt", "w") as file:
    for count, _, name in sorted((row for row in missing if row[0] > 0), key=lambda row: (-row[0], row[1])):
        file.write(f"{name}\t{count}\n")
PYTHON
