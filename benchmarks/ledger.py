"""How long it takes to freeze and to check a ledger, and how the search for clusters grows.

    python -m benchmarks.ledger

Bars, on two cores: the DeepSWE v1.1 ledger in 10 s, 5,000 made-up tasks in 60 s, `check` of a repository with
the DeepSWE tasks in 2 s; from 1,000 to 20,000 tasks the cluster search grows no worse than n log n (within a
factor of 2), and takes at most 500 MB at 20,000. Each measurement is a process of its own. Bars are held
against processor time, which is what a command takes on idle cores; the time on the clock stands beside it.
Where the real data is absent (`ASSAY_SHARED`), what needs it is said to be left out.
"""

import argparse
import json
import math
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DATASETS = Path(os.environ.get("ASSAY_SHARED") or ROOT.parent / "shared") / "datasets"
BROKEN = ("expr-try-catch-errors", "meriyah-explicit-resource-declarations")
SIZES = (1_000, 2_000, 5_000, 10_000, 20_000)
MAX_BUILD, MAX_MANY, MAX_CHECK, MAX_MEGABYTES, NOISE = 10.0, 60.0, 2.0, 500, 2.0
DIGEST = "sha256:" + "1" * 64
STATED = """
[defaults]
oracle_kind = "tests"
licence = {value = "Apache-2.0", source = "benchmark", date = "2026-01-01"}
difficulty = {value = "unknown", source = "benchmark"}
"""


def assay(*arguments: str | Path) -> tuple[float, float]:
    """Seconds of processor time of the whole command with what it calls, and seconds on the clock."""
    begin, spent = time.monotonic(), _spent()
    command = [sys.executable, "-m", "benchmarks.ledger", "--command", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, arguments))}: {done.stdout}{done.stderr}")
    return _spent() - spent, time.monotonic() - begin


def _spent() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=b", "-c", "user.email=b@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


def deepswe(scratch: Path) -> tuple[tuple[float, float], tuple[float, float]]:
    """Building the real tasks' ledger in a repository, and checking its commit, each as `assay` times it."""
    subprocess.run([DATASETS / "unpack", scratch / "data"], check=True, capture_output=True)
    repository = scratch / "repository"
    shutil.copytree(scratch / "data/deepswe-v1.1/tasks", repository / "tasks")
    folders = sorted(path.parent for path in (repository / "tasks").glob("*/task.toml"))
    include = [folder.name for folder in folders if folder.name not in BROKEN]
    names = {
        tomllib.loads((folder / "task.toml").read_text())["environment"]["docker_image"] for folder in folders
    }
    (scratch / "images.json").write_text(json.dumps({name: f"{name}@{DIGEST}" for name in names}))
    (scratch / "build.toml").write_text(
        'benchmark = "deepswe"\nversion = "1.1"\nallow_unknown = ["difficulty"]\n'
        f"include = {json.dumps(include)}\n"
        '[harness]\npaths = ["tasks"]\ntasks = "tasks"\n'
        f'[upstream]\naccept_stale = {{count = {len(include)}, reason = "benchmark"}}\n{STATED}'
    )
    git(repository, "init", "-q")
    build = (
        "ledger", "build", repository / "tasks", "--build-file", scratch / "build.toml",
        "--images", scratch / "images.json", "--archives", scratch / "archives",
        "-o", repository / "ledger.jsonl",
    )  # fmt: skip
    built = assay(*build)
    git(repository, "add", "--all")
    git(repository, "commit", "-q", "-m", "freeze")
    return built, assay("ledger", "check", "--repo", repository)


def many(scratch: Path, count: int) -> tuple[float, float]:
    """Seconds to build a ledger of made-up tasks, each with a test patch and named tests."""
    seeded = random.Random(count)
    for number in range(count):
        _write_task(scratch / f"many/task-{number:05}", number, seeded)
    (scratch / "many.toml").write_text(
        f'benchmark = "many"\nversion = "1"\nallow_unknown = ["difficulty"]\n{STATED}'
    )
    build = (
        "ledger",
        "build",
        scratch / "many",
        "--build-file",
        scratch / "many.toml",
        "-o",
        scratch / "many.jsonl",
    )
    return assay(*build)


def _write_task(folder: Path, number: int, seeded: random.Random) -> None:
    test = f"test_{number}"
    added = "".join(f"+    {line}\n" for line in _assertions(seeded, 12))
    files = {
        "task.toml": (
            f'[task]\nname = "many/{folder.name}"\n[metadata]\n'
            f'repository_url = "https://git.example/{number % 900}"\n'
            f'base_commit_hash = "{number // 2:040x}"\n'
            f'[environment]\ndocker_image = "r.example/t:1@{DIGEST}"\n'
            "[agent]\ntimeout_sec = 60\n"
        ),
        "instruction.md": "Do it.\n" * 50,
        "solution/solve.sh": "#!/bin/sh\n" + "echo work\n" * 200,
        "tests/test.sh": "#!/bin/sh\n",
        "tests/config.json": json.dumps({"f2p_node_ids": [f"tests/test_x.py::{test}"]}),
        "tests/test.patch": f"diff --git a/t b/t\n--- a/t\n+++ b/t\n@@ -0,0 +1 @@\n+def {test}():\n{added}",
    }
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def _assertions(seeded: random.Random, count: int) -> list[str]:
    """Lines of made-up identifiers, some of which are everywhere and some in a few tasks only."""
    return [
        f"assert {seeded.choice(WORDS[:300])}.{seeded.choice(WORDS)}({seeded.choice(WORDS)}) == N"
        for _ in range(count)
    ]


def _words(count: int) -> list[str]:
    """Identifiers of two to four syllables, the same on every machine."""
    seeded = random.Random(1)
    syllables = [first + second for first in "bcdfghklmnprstvw" for second in "aeiou"]
    return ["".join(seeded.choices(syllables, k=seeded.randint(2, 4))) for _ in range(count)]


WORDS = _words(20_000)


def cluster_seconds(count: int) -> tuple[float, float]:
    """Seconds that the cluster search of made-up tasks takes, and the process's peak in megabytes."""
    from assay.api.ledgerfile import AssertionSource, FailingAssertions
    from assay.core.clusters import ClusterInput, clusters

    seeded = random.Random(count)
    tasks = []
    for number in range(count):
        # Every tenth task has one short assertion: the two kinds of text are compared in different ways.
        lines = sorted(set(_assertions(seeded, 1 if number % 10 == 0 else 12)))
        read = FailingAssertions(source=AssertionSource.NAMED_TESTS, lines=lines)
        tasks.append(
            ClusterInput(f"t{number:06}", f"git.example/{number % 900}", f"{number // 2:040x}", read)
        )
    begin = time.process_time()
    found = clusters(tasks)
    seconds = time.process_time() - begin
    assert len(found) == count
    return seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def growth() -> tuple[list[tuple[int, float, float]], float]:
    """Seconds and megabytes of each size, and how much worse than n log n the largest is."""
    rows = []
    for count in SIZES:
        command = [sys.executable, "-m", "benchmarks.ledger", "--clusters", str(count)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
        seconds, megabytes = map(float, done.stdout.split())
        rows.append((count, seconds, megabytes))
    (small, first, _), (large, last, _) = rows[0], rows[-1]
    return rows, (last / first) / (large * math.log(large) / (small * math.log(small)))


def main() -> int:
    """Print the figures; 1 if one misses its bar."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clusters", type=int)
    parser.add_argument("--command", nargs=argparse.REMAINDER)
    given = parser.parse_args()
    if given.clusters:
        print(*cluster_seconds(given.clusters))
        return 0
    if given.command:
        from assay.cli.app import app

        app(given.command)
        return 0
    missed = []

    def bar(name: str, value: float, limit: float, unit: str, beside: str = "") -> None:
        print(f"{name}\t{value:.2f} {unit}\tat most {limit:g} {unit}{beside}", flush=True)
        if value > limit:
            missed.append(name)

    def timed(name: str, seconds: tuple[float, float], limit: float) -> None:
        bar(name, seconds[0], limit, "s", f"\t{seconds[1]:.2f} s on the clock")

    with tempfile.TemporaryDirectory(prefix="assay-bench-") as name:
        scratch = Path(name)
        if (DATASETS / "unpack").is_file():
            built, checked = deepswe(scratch)
            timed("build, DeepSWE v1.1, 111 tasks", built, MAX_BUILD)
            timed("check, DeepSWE v1.1, 111 tasks", checked, MAX_CHECK)
        else:
            print(f"build and check of DeepSWE: left out, no data in {DATASETS}")
        timed("build, 5,000 made-up tasks", many(scratch, 5_000), MAX_MANY)
    rows, worse = growth()
    for count, seconds, megabytes in rows:
        print(f"clusters of {count} tasks\t{seconds:.2f} s\t{megabytes:.0f} MB")
    bar("growth of the cluster search over n log n", worse, NOISE, "times")
    bar("memory at 20,000 tasks", rows[-1][2], MAX_MEGABYTES, "MB")
    if missed:
        print(f"missed: {', '.join(missed)}")
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
