"""How long `assay score` takes end to end: read, check, price, score and test attempts, write the report.

    python -m benchmarks.report_speed [--calls 3]

A suite of three ledgers (113, 66 and 124 tasks, three repetitions) with ever more variants. Each measurement
is a process of its own that streams a file. Bars: 100,000 attempts in 10 s and 500 MB, and at most 12 times
the time of 10,000. The seconds are those of the processor: other work on the machine does not count.
"""

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from assay.adapters.list_prices import build_price_sheet
from assay.adapters.score_files import stream_records
from assay.api.report import CodeVersion
from assay.api.suite import SuiteDefinition
from assay.core.collection import Collection
from assay.core.ledger import LedgerFile, parse_ledger, render_ledger
from assay.core.prices import Prices
from assay.core.report import make_report
from assay.core.score_input import ScoreInput, match_components, scored_ledgers
from benchmarks.report_speed_ledgers import MODEL, SUITE, ledgers

MAX_SECONDS, MAX_MEGABYTES, MAX_GROWTH = 10, 500, 12
REPETITIONS = 3
START = datetime(2026, 11, 30, 12, tzinfo=UTC)


def attempt_lines(files: dict[str, LedgerFile], variants: int, calls: int) -> Iterator[str]:
    """One record a line, with model calls; pass rates differ by task and by variant."""
    seeded = random.Random(variants)
    for name, file in files.items():
        for task in file.by_id:
            rate = seeded.betavariate(0.8, 0.7)
            for number in range(variants):
                own = min(1.0, max(0.0, rate + 0.1 * (number % 5 - 2)))
                for repetition in range(REPETITIONS):
                    identity = {
                        "ledger": name,
                        "ledgerDigest": file.digest,
                        "task": task,
                        "repetition": repetition,
                    }
                    yield _line(identity, number, float(seeded.random() < own), calls, seeded)


def _line(identity: dict[str, object], variant: int, reward: float, calls: int, seeded: random.Random) -> str:
    seconds = seeded.random() * 3000
    tokens = {"cacheRead": seeded.randrange(90_000), "cacheWrite5M": 500, "cacheWrite1H": 0, "output": 700}
    document = {
        "schemaVersion": 1,
        "source": "assay",
        "run": "speed",
        "runUid": "speed",
        **identity,
        "variant": "baseline" if variant == 0 else f"variant-{variant:03}",
        "tryNumber": 1,
        "retained": True,
        "outcome": "Graded",
        "reward": reward,
        "figures": {"reward": reward, "partial": 0.5},
        "models": [MODEL],
        "calls": [{"model": MODEL, "role": "main", "tokens": {"input": 100_000, **tokens}}] * calls,
        "tokens": {"input": 100_000 * calls, **tokens},
        "seconds": {"setup": 3.25, "agent": seconds, "verifier": 12.5, "trial": seconds + 20},
        "totalSeconds": seconds + 30,
        "startedAt": (START + timedelta(seconds=seconds)).isoformat(),
        "resources": {"requested": {"cpuMillis": 500}, "limit": {"cpuMillis": 1000, "memoryMib": 2048}},
        "harness": {"harbor": "0.26.0", "assay": "0.1.0", "commit": "c" * 40, "agent": "terminus-2"},
    }
    return json.dumps(document)


def measure(folder: Path) -> None:
    """Score the folder's files and print seconds and megabytes as JSON."""
    began = time.process_time()
    files = [parse_ledger(path.read_bytes()) for path in sorted(folder.glob("ledger-*.jsonl"))]
    prices = Prices(build_price_sheet([MODEL], date(2026, 11, 30)))
    collection = Collection(prices, {file.digest: frozenset(file.by_id) for file in files})
    collection.add_all(stream_records([folder / "attempts.jsonl"]))
    read = time.process_time()
    scored = scored_ledgers(collection, files, [])
    suite = SuiteDefinition.model_validate(SUITE)
    given = ScoreInput(collection, scored, {}, suite, match_components(suite, scored), "baseline")
    report = make_report(given, CodeVersion(assay="benchmark", commit=None))
    (folder / "report.json").write_text(report.model_dump_json(by_alias=True))
    ended = time.process_time()
    assert all(row.value is not None for row in report.index)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        json.dumps({"attempts": report.records, "read": read - began, "all": ended - began, "memory": memory})
    )


def run(attempts: int, calls: int) -> dict[str, float]:
    """One measurement, in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="assay-report-speed-") as name:
        folder = Path(name)
        files = ledgers(REPETITIONS)
        for ledger, file in files.items():
            (folder / f"ledger-{ledger}.jsonl").write_bytes(render_ledger(file.header, file.tasks))
        variants = round(attempts / (REPETITIONS * sum(len(file.tasks) for file in files.values())))
        with (folder / "attempts.jsonl").open("w") as output:
            output.writelines(line + "\n" for line in attempt_lines(files, variants, calls))
        command = [sys.executable, "-m", "benchmarks.report_speed", "--measure", name]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        found: dict[str, float] = json.loads(done.stdout)
        return found


def main() -> int:
    """Measures 10,000 and 100,000 attempts; 1 if a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=3, help="model calls of each attempt")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        measure(arguments.measure)
        return 0
    results = [run(attempts, arguments.calls) for attempts in (10_000, 100_000)]
    for one in results:
        print(
            f"{one['attempts']:>8,.0f} attempts, {arguments.calls} calls each: {one['all']:6.2f} s "
            f"({one['read']:.2f} s to read and price), {one['memory']:.0f} MB"
        )
    small, large = results
    growth = large["all"] / small["all"]
    print(f"growth {growth:.1f} times")
    good = large["all"] <= MAX_SECONDS and large["memory"] <= MAX_MEGABYTES and growth <= MAX_GROWTH
    print("within the bars" if good else "BARS MISSED")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
