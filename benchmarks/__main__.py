"""`make bench`: every figure that README quotes, one after the other."""

import subprocess
import sys

FIGURES = (
    "attempt_overhead",
    "sandboxd",
    "gateway",
    "ledger",
    "scoring_speed",
    "report_speed",
    "report_html",
)


def main() -> int:
    """Run them all; the exit status is that of the first that fails."""
    for name in FIGURES:
        print(f"== benchmarks.{name}", flush=True)
        status = subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], check=False).returncode
        if status:
            return status
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
