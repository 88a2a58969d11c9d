"""How long a user waits for `assay`: from the command to its last line.

    python -m benchmarks.cli_start [--runs 10]

`show` and `list` ask an API server on loopback that answers at once, so what is left is the program itself:
its start, its imports, reading a run and printing it. Bar: `assay show` in at most 1 s.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import yaml

from assay.api.evaluation_run import EvaluationRun
from tests.fixtures.http_answers import answering
from tests.operator_kit.builders import DIGEST, RUN_UID, run_object

BAR_SECONDS = 1.0
ASSAY = str(Path(sys.executable).with_name("assay"))
COMMANDS = (("--help",), ("--version",), ("list",), ("show", "run"))
VARIANTS = 8


def ended_run() -> EvaluationRun:
    """A run of eight variants that has ended."""
    figures = {"planned": 300, "valid": 300, "scoreStrict": "0.41", "scoreValid": "0.41", "coverage": "1"}
    mean = {"mean": "1234.5", "n": 300}
    row = {"ledger": "ledger", "tries": 301, "infraErrors": 1, "inputTokens": mean, "agentSeconds": mean}
    ledger = {"name": "ledger", "uid": RUN_UID, "digest": DIGEST, "planDigest": DIGEST, "tasks": 100}
    names = [f"variant-{number}" for number in range(VARIANTS)]
    status = {
        "attempts": {"planned": 300 * VARIANTS, "recorded": 300 * VARIANTS},
        "conditions": [
            {
                "type": "Complete",
                "status": "True",
                "reason": "AllRecorded",
                "message": "every attempt has a score",
                "observedGeneration": 1,
                "lastTransitionTime": "2026-11-30T12:00:00Z",
            }
        ],
        "resolved": {"ledgers": [ledger]},
        "vector": [{"variant": name, **row, **figures} for name in names],
    }
    return run_object(status=status, variants=[{"name": name} for name in names])


def api_server(run: EvaluationRun) -> AbstractContextManager[str]:
    """Answers with the run, or with a list of 20 of it."""
    one = run.model_dump_json(by_alias=True, exclude_none=True)
    many = f'{{"items": [{",".join([one] * 20)}]}}'
    return answering(lambda path: (one if path.endswith("/run") else many).encode())


def seconds(command: Sequence[str], environment: dict[str, str]) -> float:
    """Wall time of the command. Raises CalledProcessError."""
    begun = time.perf_counter()
    subprocess.run([ASSAY, *command], env=environment, check=True, capture_output=True)
    return time.perf_counter() - begun


def main() -> int:
    """Print the medians; 1 where `assay show` misses its bar."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=10, help="of each command, after one that is not counted")
    chosen = parser.parse_args()
    medians = {}
    with tempfile.TemporaryDirectory() as scratch, api_server(ended_run()) as server:
        kubeconfig = Path(scratch) / "config"
        kubeconfig.write_text(
            yaml.safe_dump(
                {
                    "current-context": "here",
                    "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
                    "clusters": [{"name": "c", "cluster": {"server": server}}],
                    "users": [{"name": "u", "user": {"token": "none"}}],
                }
            )
        )
        environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "KUBERNETES_SERVICE_HOST": ""}
        for command in COMMANDS:
            seconds(command, environment)
            taken = [seconds(command, environment) for _ in range(chosen.runs)]
            medians[command] = statistics.median(taken)
            print(
                f"assay {' '.join(command):10} median {medians[command]:.2f} s of {chosen.runs}, "
                f"{min(taken):.2f} to {max(taken):.2f}"
            )
    missed = medians["show", "run"] > BAR_SECONDS
    print(f"bar: assay show in {BAR_SECONDS:.0f} s: {'MISSED' if missed else 'held'}")
    return int(missed)


if __name__ == "__main__":
    raise SystemExit(main())
