#!/bin/bash
set -eu
cat > /tmp/report.py <<'PYTHON'
import collections
import json
import re

LINE = re.compile(r'(\S+) \S+ \S+ \[[^]]+\] "[^"]*" (\d{3}) (\d+)')
requests = [match.groups() for line in open("/app/access.log") if (match := LINE.fullmatch(line.strip()))]
report = {
    "requests": len(requests),
    "by_status": dict(collections.Counter(status for _, status, _ in requests)),
    "busiest_client": collections.Counter(client for client, _, _ in requests).most_common(1)[0][0],
    "bytes_sent": sum(int(size) for _, _, size in requests),
}
with open("/app/report.json", "w") as file:
    json.dump(report, file)
PYTHON
python3 /tmp/report.py
