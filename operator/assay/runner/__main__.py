"""`python -m assay.runner run` executes one try; `prestop` tells it that the pod is about to end."""

import os
import signal
import sys
from pathlib import Path

# Before Harbor and litellm are imported: no telemetry, no download of a price table.
os.environ.setdefault("HARBOR_TELEMETRY", "off")
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")

_USAGE = "usage: python -m assay.runner run|prestop"


def main(arguments: list[str]) -> int:
    """Run the command. Returns the exit status: 0, or 2 for a wrong command line."""
    if arguments == ["prestop"]:
        return prestop()
    if arguments == ["run"]:
        # Imported late: `prestop` must start in a moment.
        from assay.runner.command import run

        return run()
    print(_USAGE, file=sys.stderr)
    return 2


def prestop() -> int:
    """Tell the runner to save what exists. At a normal end it takes no notice."""
    pid_file = Path(os.environ.get("ASSAY_WORK") or "/work") / ".assay" / "pid"
    try:
        os.kill(int(pid_file.read_text()), signal.SIGUSR1)
    except (OSError, ValueError) as error:
        print(f"no runner to tell: {error}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
