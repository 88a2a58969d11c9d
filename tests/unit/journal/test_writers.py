"""What is recorded stays recorded: lost answers, processes that die anywhere, two writers at once."""

import asyncio
import random
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.adapters.journal_store import JournalStore, JournalSuperseded
from assay.adapters.s3 import StorageError
from assay.core.journal import Draft, Journal, tries_of
from assay.core.journal_check import ChainCheck, ChainReport
from tests.unit.journal.memory import NOW, RUN_UID, MemoryStore, Objects, record

PREFIX = "runs/x/journal/"


def journal_store(objects: Objects, trouble: float = 0.0) -> JournalStore:
    return JournalStore(MemoryStore(objects, trouble).as_store(), "bucket", PREFIX, RUN_UID)


@dataclass
class World:
    """Jobs that have ended, some of them deleted because their result is durable."""

    jobs: set[int] = field(default_factory=set)
    deleted: set[int] = field(default_factory=set)


async def operator(world: World, objects: Objects, epoch: int, seed: int, trouble: float, life: int) -> None:
    """A process that records Jobs and deletes them, until it is superseded or killed at its `life`th step."""
    chance = random.Random(seed)
    store = journal_store(objects, trouble)
    journal: Journal | None = None
    draft: Draft | None = None
    for _ in range(life):
        await asyncio.sleep(0)
        try:
            if journal is None:
                journal = await store.take_over(epoch, f"pod-{epoch}")
                continue
            if draft is None:
                left = sorted(world.jobs - world.deleted)
                some = chance.sample(left, min(len(left), chance.randrange(4)))
                draft = journal.next_compaction(NOW) or journal.next_segment(map(record, some), NOW)
            await store.write(journal, draft)
            draft = None
        except StorageError:
            continue
        except JournalSuperseded:
            return
        known = set(journal.records)
        world.deleted |= {one for one in world.jobs if record(one).job_name in known}


async def check(objects: Objects, head: str | None = None) -> ChainReport:
    store, chain = journal_store(objects), ChainCheck()
    async for segment in store.segments(await store.names()):
        chain.add(segment)
    return chain.report(head)


@settings(max_examples=80, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    lives=st.lists(st.integers(1, 60), min_size=1, max_size=5),
    trouble=st.sampled_from([0.0, 0.1, 0.4]),
)
def test_nothing_deleted_is_lost_whoever_writes_and_whoever_dies(
    seed: int, lives: list[int], trouble: float
) -> None:
    """Processes with rising epochs start while older ones still write: planned = recorded, each once."""

    async def scenario() -> None:
        objects = Objects(chance=random.Random(seed))
        world = World(set(range(40)))
        chance = random.Random(seed)
        tasks = []
        for epoch, life in enumerate(lives, 1):
            tasks.append(asyncio.create_task(operator(world, objects, epoch, seed + epoch, trouble, life)))
            for _ in range(chance.randrange(200)):
                await asyncio.sleep(0)
        await asyncio.gather(*tasks)
        last = await journal_store(objects).take_over(len(lives) + 1, "last")
        assert {record(one).job_name for one in world.deleted} <= set(last.records)
        assert all(found == record(int(name.split("-")[1])) for name, found in last.records.items())
        report = await check(objects)
        assert report.problems == ()
        assert report.entries == len(last.records)
        assert report.head == last.head

    asyncio.run(scenario())


class Counting(MemoryStore):
    """Counts what is read."""

    reads = 0

    async def get_bytes(self, bucket: str, key: str, limit: int) -> bytes:
        self.reads += 1
        return await super().get_bytes(bucket, key, limit)


async def append(objects: Objects, journal: Journal, numbers: range) -> None:
    """One segment a record, compacted whenever that is due."""
    store = journal_store(objects)
    for number in numbers:
        await store.write(journal, journal.next_segment([record(number)], NOW))
        while (draft := journal.next_compaction(NOW)) is not None:
            await store.write(journal, draft)


async def test_replay_is_what_was_written_and_reads_few_segments_however_many_there_are() -> None:
    objects = Objects()
    journal = await journal_store(objects).take_over(1, "pod")
    await append(objects, journal, range(1100))
    assert any("/segments/2/" in key for key in objects.content), "two levels were compacted"
    counting = Counting(objects)
    again = await JournalStore(counting.as_store(), "bucket", PREFIX, RUN_UID).take_over(2, "pod")
    assert again.records == journal.records
    assert (again.head, again.sequence) == (journal.head, journal.sequence)
    assert counting.reads < 80
    await append(objects, again, range(5000, 5040))
    assert journal.head is not None
    assert (await check(objects, journal.head.digest)).problems == ()


async def test_an_older_operator_can_neither_fork_nor_overwrite() -> None:
    objects = Objects()
    old_store, new_store = journal_store(objects), journal_store(objects)
    old = await old_store.take_over(1, "old")
    await old_store.write(old, old.next_segment([record(1)], NOW))
    new = await new_store.take_over(2, "new")
    late = old.next_segment([record(2)], NOW)
    with pytest.raises(JournalSuperseded, match="epoch 2"):
        await old_store.write(old, late)
    await new_store.write(new, new.next_segment([record(3)], NOW))
    with pytest.raises(JournalSuperseded):
        await old_store.take_over(1, "old")
    report = await check(objects, new.head.digest if new.head else None)
    assert report.problems == ()
    assert report.strays == (late.name,)
    assert report.entries == 2
    assert set((await journal_store(objects).take_over(3, "x")).records) == {
        record(1).job_name,
        record(3).job_name,
    }


async def test_a_write_whose_answer_was_lost_is_repeated_with_the_same_bytes() -> None:
    objects = Objects()
    store = journal_store(objects)
    journal = await store.take_over(1, "pod")
    draft = journal.next_segment([record(1)], NOW)
    await journal_store(objects)._put("segments/" + str(draft.name), draft.content, "")
    await store.write(journal, draft)
    assert list(journal.records) == [record(1).job_name]


def test_records_of_an_attempt_come_by_their_number() -> None:
    second, first = record(1, 2), record(1, 1)
    assert tries_of([second, record(2), first])[first.key] == [first, second]
