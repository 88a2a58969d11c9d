"""How soon a killed operator makes Jobs again, what it then holds in memory, how large its run's object is.

    python -m benchmarks.operator_recovery [--attempts 1000 10000 99000]

A real API server with simulated nodes. A run is begun and its operator killed with SIGKILL; then as many
tries as asked for are written into its journal, and an operator is started. Timed from the process's start:
imports, the Lease, the lists, the ledger and the journal are all in it. Bars: 5 s to the first new Job with
10,000 recorded attempts; 10 MB for each 10,000 recorded attempts, more than the process had when it had begun
the run (what an idle one has is shown, too); an object below 128 KiB at any size.
"""

import argparse
import asyncio
import itertools
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from assay.adapters.journal_store import JournalStore
from assay.adapters.lease import EPOCH, LEASE_NAME
from assay.adapters.s3 import AsyncS3Store
from assay.api.evaluation_run import EvaluationRun
from assay.core.names import journal_prefix
from assay.core.reconcile import name_of
from assay.core.record import AttemptKey
from assay.core.try_spec import storage_of
from benchmarks.journal import record
from benchmarks.operator_throughput import AS_INSTALLED, BY_THE_CLOCK, Observer
from benchmarks.simulated_cluster import enter, resident_mb
from tests.fixtures.s3 import S3Server, running
from tests.operator_kit.cluster import Cluster, Object, until
from tests.operator_kit.fates import Fate, Script
from tests.operator_kit.process import Operator, Wishes, fresh_namespace
from tests.operator_kit.runners import Runners

REPETITIONS = 10
WINDOW = 50
SPARE = 1000
"""Attempts beyond the recorded ones, for the operator to go on with."""
BATCH = 200
SECONDS = 600.0

MOST_SECONDS, MOST_MB, MOST_BYTES = 5.0, 10.0, 128 << 10


@dataclass(frozen=True)
class Recovered:
    """What one restart took. Memory is for each 10,000 recorded attempts."""

    attempts: int
    first_job: float
    window_full: float
    idle_mb: float
    begun_mb: float
    resident_mb: float
    object_bytes: int

    @property
    def held_mb(self) -> float:
        """What each 10,000 recorded attempts add to a process that has begun the run."""
        return (self.resident_mb - self.begun_mb) / self.attempts * 10_000

    def row(self) -> str:
        memory = f"{self.idle_mb:>9.0f}{self.begun_mb:>10.0f}{self.resident_mb:>9.0f}{self.held_mb:>11.1f}"
        times = f"{self.attempts:>9,}{self.first_job:>11.2f}{self.window_full:>13.2f}"
        return f"{times}{memory}{self.object_bytes:>11,}"


HEAD = (
    f"{'recorded':>9}{'1st Job, s':>11}{'all slots, s':>13}"
    f"{'idle, MB':>9}{'begun, MB':>10}{'RSS, MB':>9}{'MB/10,000':>11}{'object, B':>11}"
)


async def measure(s3: S3Server, folder: Path, attempts: int) -> Recovered:
    """Kill and restart the operator of a run with so many recorded attempts."""
    tasks = (attempts + SPARE) // REPETITIONS
    keys = [
        AttemptKey("ledger", f"task-{task}", "oracle", repetition)
        for task, repetition in itertools.product(range(tasks), range(REPETITIONS))
    ]
    async with fresh_namespace(s3) as cluster:
        operator = Operator(cluster, s3, folder / "operator.log")
        runners = Runners(cluster, Script(dict.fromkeys(keys, Fate.SOUND)), told=False)
        async with runners.working():
            run, memory = await begin_and_kill(cluster, operator, tasks)
            taken = {job["metadata"]["name"] for job in await cluster.jobs("run")}
            await write_journal(cluster, run, keys, attempts, taken)
            return await restart(cluster, operator, run, attempts, memory)


async def begin_and_kill(
    cluster: Cluster, operator: Operator, tasks: int
) -> tuple[EvaluationRun, tuple[float, float]]:
    """The run that the operator has begun when it is killed; its memory before it and then, in MB."""
    process = await operator.start(**AS_INSTALLED)
    await until("the operator works", operator.works, SECONDS)
    idle = resident_mb(process.pid)
    wishes = Wishes(cluster)
    await wishes.ledger(tasks=tasks, where="s3")
    await wishes.variant()
    body = await wishes.run(parallelism=WINDOW, repetitions=REPETITIONS, placement=BY_THE_CLOCK)

    async def begun() -> bool:
        return len(await cluster.jobs("run")) > 0

    await until("the run has begun", begun, SECONDS)
    memory = (idle, resident_mb(process.pid))
    process.kill()
    await process.wait()
    return EvaluationRun.parse(body), memory


async def write_journal(
    cluster: Cluster, run: EvaluationRun, keys: list[AttemptKey], attempts: int, taken: set[str]
) -> None:
    """Record so many tries that the operator has not begun, as the process after it would have."""
    path = f"/apis/coordination.k8s.io/v1/namespaces/{cluster.namespace}/leases/{LEASE_NAME}"
    epoch = int((await cluster.client.get(path))["metadata"]["annotations"][EPOCH])
    store = AsyncS3Store(cluster.store.settings)
    uid = run.metadata.uid
    files = JournalStore(store, cluster.bucket, journal_prefix(storage_of(run), uid), uid)
    journal = await files.take_over(epoch + 1, "benchmark")
    named = ((key, name_of(uid, key, 1)) for key in keys)
    free = [(key, name) for key, name in named if name not in taken and name not in journal.records]
    made = (
        replace(record(number), key=key, job_name=name) for number, (key, name) in enumerate(free[:attempts])
    )
    for some in itertools.batched(made, BATCH, strict=False):
        await files.write(journal, journal.next_segment(some, datetime.now(UTC)))
        while (draft := journal.next_compaction(datetime.now(UTC))) is not None:
            await files.write(journal, draft)
    await store.close()


async def restart(
    cluster: Cluster, operator: Operator, run: EvaluationRun, attempts: int, memory: tuple[float, float]
) -> Recovered:
    """Start an operator and see how soon it goes on."""
    observer = Observer(cluster)
    async with observer.watching(run.metadata.uid):
        known = {job["metadata"]["name"] for job in await cluster.jobs("run")}
        begun = time.perf_counter()
        async with operator.running(**AS_INSTALLED) as process:

            async def slots_full() -> bool:
                return len(list(new(observer, known))) >= WINDOW

            await until("the slots are filled again", slots_full, SECONDS)
            made = sorted(new(observer, known))

            async def told() -> Object | None:
                found = await cluster.get("evaluationruns", "run")
                recorded = found.get("status", {}).get("attempts", {}).get("recorded", 0)
                return found if recorded >= attempts else None

            shown = await until("the status tells of them", told, SECONDS)
            resident = resident_mb(process.pid)
    size = len(json.dumps(shown, separators=(",", ":")).encode())
    return Recovered(attempts, made[0] - begun, made[WINDOW - 1] - begun, *memory, resident, size)


def new(observer: Observer, known: set[str]) -> Iterator[float]:
    """When Jobs that were not there before were seen."""
    return (when for name, when in observer.made.items() if name not in known)


async def measure_all(sizes: list[int]) -> list[str]:
    """Print the table; the bars that were missed."""
    print(HEAD, flush=True)
    missed = []
    with tempfile.TemporaryDirectory() as folder, running(Path(folder) / "s3") as s3:
        for attempts in sizes:
            found = await measure(s3, Path(folder), attempts)
            print(found.row(), flush=True)
            if attempts <= 10_000 and found.first_job > MOST_SECONDS:
                missed.append(f"first Job after {found.first_job:.1f} s at {attempts:,}")
            if attempts >= 10_000 and found.held_mb > MOST_MB:
                missed.append(f"{found.held_mb:.1f} MB for 10,000 at {attempts:,}")
            if found.object_bytes >= MOST_BYTES:
                missed.append(f"an object of {found.object_bytes:,} bytes at {attempts:,}")
    return missed


def main() -> int:
    """Print the table; 1 if a bar is missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--attempts", type=int, nargs="+", default=[1000, 10_000, 99_000])
    arguments = parser.parse_args()
    enter("operator_recovery")
    missed = asyncio.run(measure_all(arguments.attempts))
    print(f"missed: {'; '.join(missed)}" if missed else "the bars hold")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
