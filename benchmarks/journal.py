"""How fast a restarted operator knows again what is recorded, and how that grows.

    python -m benchmarks.journal [--attempts 10000 100000]

S3 is versitygw on this machine. Segments have 200 tries, as a busy run writes them, and the last 3,000
have one each, as a slow run does, so that compaction matters. The floor is the same bytes read and
unpacked without any check. Bar: 10,000 recorded attempts within 5 s. Memory is what a
fresh process holds more after it has read them.
"""

import argparse
import asyncio
import gc
import gzip
import resource
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from datetime import timedelta
from itertools import batched
from multiprocessing import get_context
from pathlib import Path
from uuid import UUID

from assay.adapters.journal_store import JournalStore
from assay.adapters.s3 import AsyncS3Store, S3Settings
from assay.api.outcome import OutcomeClass
from assay.core.journal import Journal
from assay.core.names import job_name
from assay.core.record import AttemptKey, TryRecord, TryTokens
from tests.fixtures.s3 import new_bucket, running
from tests.operator_kit.builders import DIGEST, NOW, RUN_UID

MAX_SECONDS_10K = 5.0
BATCH, SINGLES = 200, 3000
PREFIX = "runs/x/journal/"


def record(number: int) -> TryRecord:
    """As large as one of a real try."""
    key = AttemptKey("deepswe", f"task-{number // 12:05d}", f"variant-{number % 4}", number // 4 % 3)
    return TryRecord(
        key=key,
        try_number=1,
        job_name=job_name(RUN_UID, *key, 1),
        outcome=OutcomeClass.GRADED,
        reason="the verifier gave a reward",
        ended_at=NOW + timedelta(seconds=number),
        pod_uid=str(UUID(int=number)),
        reward=float(number % 3 == 0),
        agent_seconds=431.07,
        total_seconds=520.5,
        tokens=TryTokens(input=120_000 + number, cache_read=100_000, output=9_000),
        model_calls=41,
        harbor_version="0.26.0",
        harness_commit="0" * 40,
        manifest_digest=f"sha256:{number:064x}",
        images=tuple((name, f"registry.example/task-{number // 12}@{DIGEST}") for name in ("a", "b", "c")),
    )


async def write(store: JournalStore, attempts: int) -> Journal:
    """The journal of a run that has made them all."""
    journal = await store.take_over(1, "writer")
    parts = [
        *batched(range(attempts - SINGLES), BATCH, strict=False),
        *((n,) for n in range(attempts)[-SINGLES:]),
    ]
    for part in parts:
        await store.write(journal, journal.next_segment(map(record, part), NOW))
        while (draft := journal.next_compaction(NOW)) is not None:
            await store.write(journal, draft)
    return journal


def resident_mb() -> float:
    """Resident memory of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def restart(settings: S3Settings, bucket: str) -> tuple[float, float, int]:
    """A fresh process takes the journal over: seconds, megabytes more than before, recorded tries."""

    async def take_over() -> tuple[float, float, int]:
        client = AsyncS3Store(settings)
        store = JournalStore(client, bucket, PREFIX, RUN_UID)
        await store.names()  # the client's own memory is not the journal's
        gc.collect()
        before, begun = resident_mb(), time.perf_counter()
        journal = await store.take_over(2, "restarted")
        seconds = time.perf_counter() - begun
        gc.collect()
        held = resident_mb() - before
        await client.close()
        return seconds, held, len(journal.records)

    return asyncio.run(take_over())


async def measure(attempts: int) -> float:
    """Print one line; the seconds that a restart takes."""
    with tempfile.TemporaryDirectory() as folder, running(Path(folder) / "s3") as server:
        client, bucket = AsyncS3Store(server.settings), new_bucket(server)
        store = JournalStore(client, bucket, PREFIX, RUN_UID)
        sequence = (await write(store, attempts)).sequence
        with ProcessPoolExecutor(1, get_context("spawn")) as fresh:
            seconds, held, found = fresh.submit(restart, server.settings, bucket).result()
        assert found == attempts
        begun = time.perf_counter()
        read = 0
        for name in await store.names():
            content = await client.get_bytes(bucket, f"{PREFIX}segments/{name}", 1 << 30)
            read += len(gzip.decompress(content))
        floor = time.perf_counter() - begun
        print(f"{attempts:>9,}{sequence:>10,}{seconds:>10.2f}{floor:>9.2f}{held:>10.1f}", flush=True)
        await client.close()
        return seconds


def main() -> int:
    """Print the table; 1 if the bar is missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--attempts", type=int, nargs="+", default=[10_000, 100_000])
    arguments = parser.parse_args()
    print(f"{'attempts':>9}{'segments':>10}{'restart s':>10}{'floor s':>9}{'held MB':>10}")
    taken = {attempts: asyncio.run(measure(attempts)) for attempts in arguments.attempts}
    missed = any(seconds > MAX_SECONDS_10K for attempts, seconds in taken.items() if attempts <= 10_000)
    print("the bar was missed" if missed else "the bar holds")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
