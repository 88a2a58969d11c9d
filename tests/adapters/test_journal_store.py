"""The journal on a real S3 server, one that dies in the middle included."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from assay.adapters.journal_store import JournalStore, JournalSuperseded, add_ledger_runs, list_ledger_runs
from assay.adapters.s3 import AsyncS3Store, S3Settings, StorageUnavailable
from assay.api.journal import LedgerRun, Opening, OpeningLedger, OpeningVariant
from assay.core.journal_check import ChainCheck, ChainReport
from assay.core.segments import JournalError
from tests.fixtures.s3 import S3Server, bucket, mortal_s3, new_bucket, s3_server  # noqa: F401  fixtures
from tests.operator_kit.builders import DIGEST
from tests.unit.journal.memory import NOW, RUN_UID, record

PREFIX = f"runs/{RUN_UID}/journal/"


@pytest.fixture
async def store(s3_server: S3Server) -> AsyncIterator[AsyncS3Store]:  # noqa: F811
    made = AsyncS3Store(s3_server.settings)
    yield made
    await made.close()


async def report(journal: JournalStore, head: str | None = None) -> ChainReport:
    check = ChainCheck()
    async for segment in journal.segments(await journal.names()):
        check.add(segment)
    return check.report(head)


async def test_a_journal_is_read_as_it_was_written(store: AsyncS3Store, bucket: str) -> None:  # noqa: F811
    writer = JournalStore(store, bucket, PREFIX, RUN_UID)
    journal = await writer.take_over(1, "pod")
    for number in range(35):
        await writer.write(journal, journal.next_segment([record(2 * number), record(2 * number + 1)], NOW))
        if (draft := journal.next_compaction(NOW)) is not None:
            await writer.write(journal, draft)
    reader = JournalStore(store, bucket, PREFIX, RUN_UID)
    again = await reader.take_over(2, "pod")
    assert again.records == journal.records
    assert len(again.records) == 70
    found = await report(reader, journal.head.digest if journal.head else None)
    assert (found.problems, found.segments, found.entries) == ((), 36, 70)


async def test_what_the_journal_said_first_is_found_behind_compactions(
    store: AsyncS3Store,
    bucket: str,  # noqa: F811
) -> None:
    """It says that the ledger was frozen before the first call, also after a restart."""
    writer = JournalStore(store, bucket, PREFIX, RUN_UID)
    assert await writer.opening() is None
    journal = await writer.take_over(1, "pod")
    ledger = OpeningLedger(name="ledger", digest=DIGEST, plan_digest=DIGEST, repetitions=1)
    variants = [OpeningVariant(name="oracle", fingerprint=DIGEST)]
    opening = Opening(run_name="run", namespace="evals", ledgers=[ledger], variants=variants)
    await writer.write(journal, journal.next_segment((), NOW, opening))
    for number in range(35):
        await writer.write(journal, journal.next_segment([record(number)], NOW + timedelta(seconds=number)))
        if (draft := journal.next_compaction(NOW)) is not None:
            await writer.write(journal, draft)
    found = await JournalStore(store, bucket, PREFIX, RUN_UID).opening()
    assert found is not None
    assert (found.written_at, found.opening) == (NOW, opening)


async def test_of_two_operators_at_once_the_newer_one_has_the_journal(
    store: AsyncS3Store,
    bucket: str,  # noqa: F811
) -> None:
    """The older one goes on writing while the newer takes over; nothing it believes durable is lost."""
    old_store, new_store = (JournalStore(store, bucket, PREFIX, RUN_UID) for _ in range(2))
    old = await old_store.take_over(1, "old")
    durable: list[str] = []
    begun = asyncio.Event()

    async def write_on() -> None:
        for number in range(10_000):
            await old_store.write(old, old.next_segment([record(number)], NOW))
            durable.append(record(number).job_name)
            begun.set()

    writing = asyncio.create_task(write_on())
    await begun.wait()
    new = await new_store.take_over(2, "new")
    for number in range(20_000, 20_010):
        await new_store.write(new, new.next_segment([record(number)], NOW))
    with pytest.raises(JournalSuperseded, match="epoch 2"):
        await writing
    assert set(durable) <= set(new.records)
    found = await report(new_store, new.head.digest if new.head else None)
    assert found.problems == ()
    assert found.entries == len(new.records)


async def test_a_store_that_dies_and_comes_back_loses_nothing(mortal_s3: S3Server) -> None:  # noqa: F811
    settings = S3Settings(**mortal_s3.settings.model_dump() | {"tries": 1, "connect_timeout_seconds": 1})
    store = AsyncS3Store(settings)
    name = new_bucket(mortal_s3)
    writer = JournalStore(store, name, PREFIX, RUN_UID)
    journal = await writer.take_over(1, "pod")
    for number in range(3):
        await writer.write(journal, journal.next_segment([record(number)], NOW))
        draft = journal.next_segment([record(100 + number)], NOW)
        mortal_s3.stop()
        with pytest.raises(StorageUnavailable):
            await writer.write(journal, draft)
        assert record(100 + number).job_name not in journal.records
        mortal_s3.start()
        await writer.write(journal, draft)
    again = await writer.take_over(2, "pod")
    assert again.records == journal.records
    assert len(again.records) == 6
    await store.close()


async def test_a_journal_with_a_hole_is_refused_not_begun_anew(store: AsyncS3Store, bucket: str) -> None:  # noqa: F811
    writer = JournalStore(store, bucket, PREFIX, RUN_UID)
    journal = await writer.take_over(1, "pod")
    drafts = []
    for number in range(3):
        drafts.append(journal.next_segment([record(number)], NOW))
        await writer.write(journal, drafts[-1])
    key = f"{PREFIX}segments/{drafts[1].name}"
    await store.run(store.sync.client.delete_object, Bucket=bucket, Key=key)
    with pytest.raises(JournalError, match=r"00000002-000000000001\.jsonl\.gz is missing"):
        await writer.take_over(2, "pod")


async def test_every_run_stays_on_the_list_of_its_ledger(store: AsyncS3Store, bucket: str) -> None:  # noqa: F811
    ledger = OpeningLedger(name="ledger", digest=DIGEST, plan_digest=DIGEST, repetitions=1)
    runs = [
        LedgerRun(
            run_uid=f"{number}1111111-1111-4111-8111-111111111111",
            run_name="run",
            namespace="evals",
            ledger=ledger,
            variants=[OpeningVariant(name="oracle", fingerprint=DIGEST)],
            started_at=datetime(2026, 11, 30 - number, tzinfo=UTC),
            journal=PREFIX,
        )
        for number in range(2)
    ]
    await add_ledger_runs(store, bucket, runs)
    changed = runs[0].model_copy(update={"run_name": "another"})
    await add_ledger_runs(store, bucket, [changed])
    assert await list_ledger_runs(store, bucket, DIGEST) == [runs[1], runs[0]]
    assert await list_ledger_runs(store, bucket, "sha256:" + "b" * 64) == []
