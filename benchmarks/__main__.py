"""`make bench`: every figure that README quotes, one after the other."""

import os
import subprocess
import sys

from localcluster.cluster import INSIDE

FIGURES = (
    "attempt_overhead",
    "sandboxd",
    "gateway",
    "ledger",
    "scoring_speed",
    "report_speed",
    "report_html",
    "cli_start",
)
SIMULATED = ("operator_throughput", "operator_recovery")
"""These start a cluster of their own, whose nodes are simulated."""


def main() -> int:
    """Run them all; the exit status is that of the first that fails."""
    python = [sys.executable, "-m"]
    enter = [] if INSIDE in os.environ else [*python, "localcluster", "shell", "--"]
    for name in (*FIGURES, *SIMULATED):
        print(f"== benchmarks.{name}", flush=True)
        prefix = [] if name in SIMULATED else enter
        status = subprocess.run([*prefix, *python, f"benchmarks.{name}"], check=False).returncode
        if status:
            return status
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
