"""Reads a run's journal as anybody may, and checks it as a third party does."""

from collections import Counter

from assay.adapters.journal_store import LAST_EPOCH, JournalStore
from assay.adapters.s3 import AsyncS3Store
from assay.api.tryspec import StorageTarget
from assay.core.journal_check import ChainCheck, ChainReport
from assay.core.names import journal_prefix
from assay.core.record import TryRecord
from tests.operator_kit.cluster import Cluster


async def recorded(cluster: Cluster, run: str = "run") -> list[TryRecord]:
    """Every try that the journal of the run holds; the journal is sound."""
    _, records = await read_journal(cluster, run)
    return records


async def read_journal(cluster: Cluster, run: str = "run") -> tuple[ChainReport, list[TryRecord]]:
    """The check's report and the records; fails where the journal has a problem."""
    body = await cluster.get("evaluationruns", run)
    prefix = body["spec"]["storage"]["s3"].get("prefix", "")
    uid = body["metadata"]["uid"]
    store = AsyncS3Store(cluster.store.settings)
    try:
        target = StorageTarget(bucket=cluster.bucket, prefix=prefix)
        journal = JournalStore(store, cluster.bucket, journal_prefix(target, uid), uid)
        check = ChainCheck()
        async for segment in journal.segments(await journal.names()):
            check.add(segment)
        report = check.report()
        assert report.problems == (), report.problems
        found = await journal.load(LAST_EPOCH)
        return report, list(found.records.values())
    finally:
        await store.close()


def tries_by_task(records: list[TryRecord]) -> Counter[tuple[str, int]]:
    """How often each (task, try number) is recorded."""
    return Counter((one.key.task, one.try_number) for one in records)
