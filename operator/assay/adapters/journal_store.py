"""The journal of a run in S3: taken over by one operator process, continued by it, read by anybody.

What keeps two writers apart needs nothing of the store but that a listing shows what was written before it:
each process has an epoch of its own and never writes a key of another. It takes a journal over by writing a
fence and reading the journal *after* that. Each segment is written first, and the fences are listed *after*
that. So of two processes at least one sees the other's write: either the newer one reads the older one's last
segment, or the older one sees the fence, counts its segment as not written, and stops.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable
from datetime import UTC, datetime
from itertools import batched

from pydantic import ValidationError

from assay.adapters.s3 import AsyncS3Store, NoSuchKey
from assay.api.journal import MAX_LEVEL, Fence, LedgerRun, SegmentHeader, SegmentRef
from assay.core.canonical import canonical_json
from assay.core.journal import Draft, Journal, check_ref, step_back, tip_of
from assay.core.names import ledger_runs_prefix
from assay.core.segments import (
    FENCES,
    MAX_SEGMENT_BYTES,
    SEGMENTS,
    JournalError,
    Segment,
    SegmentName,
    decode_segment,
    fence_epoch,
    fence_name,
    render_fence,
)

log = logging.getLogger(__name__)

READ_AT_ONCE = 8
LAST_EPOCH = 999_999_999_999
"""For readers: no operator has a higher one."""
MAX_INDEX_BYTES = 1 << 20


class JournalSuperseded(Exception):
    """A newer operator process has taken the journal over: this one must stop acting on the run."""


class JournalStore:
    """One journal. Methods raise StorageError, JournalError for damage, JournalSuperseded."""

    def __init__(self, store: AsyncS3Store, bucket: str, prefix: str, run_uid: str) -> None:
        """`prefix` is the journal's, ending in a slash."""
        self._store, self._bucket, self._prefix, self._uid = store, bucket, prefix, run_uid

    async def take_over(self, epoch: int, holder: str) -> Journal:
        """Become the writer and read what is recorded."""
        await self.check_fence(epoch)
        fence = Fence(run_uid=self._uid, epoch=epoch, holder=holder, taken_at=datetime.now(UTC))
        await self._put(FENCES + fence_name(epoch), render_fence(fence), "application/json")
        return await self.load(epoch)

    async def load(self, epoch: int) -> Journal:
        """Read what is recorded; `epoch` is the reader's own, LAST_EPOCH for one that never writes."""
        segments = await self._backwards()
        return await asyncio.to_thread(Journal.replay, self._uid, epoch, segments)

    async def write(self, journal: Journal, draft: Draft) -> None:
        """Make the draft durable and commit it. After an error write the very same draft again."""
        await self._put(SEGMENTS + str(draft.name), draft.content, "application/gzip")
        await self.check_fence(journal.epoch)
        journal.commit(draft)

    async def check_fence(self, epoch: int) -> None:
        """Return if no process of a higher epoch has taken over. Raises JournalSuperseded."""
        prefix = self._prefix + FENCES
        newer = await self._store.list_keys(self._bucket, prefix, prefix + fence_name(epoch))
        for found in newer:
            other = fence_epoch(found.key.removeprefix(prefix))
            if other is not None and other > epoch:
                raise JournalSuperseded(
                    f"an operator of epoch {other} has taken over the journal of run {self._uid}; "
                    f"this one has {epoch}"
                )

    async def names(self) -> list[SegmentName]:
        """Every segment that there is, those outside the chain and compactions included, by sequence."""
        found = [name for level in range(MAX_LEVEL + 1) for name in await self._names(level)]
        return sorted(found, key=lambda name: (name.sequence, name.epoch))

    async def read(self, name: SegmentName) -> Segment:
        """One segment."""
        try:
            content = await self._store.get_bytes(
                self._bucket, f"{self._prefix}{SEGMENTS}{name}", MAX_SEGMENT_BYTES
            )
        except NoSuchKey as error:
            raise JournalError(f"segment {name} is missing") from error
        return decode_segment(content, name, self._uid)

    async def opening(self) -> SegmentHeader | None:
        """Header of the first segment, which says what the run measures; None before it is written.

        Where two processes wrote one, it is that which was written first.
        """
        wanted = f"{self._prefix}{SEGMENTS}0/{1:08d}-"
        keys = await self._store.list_keys(self._bucket, wanted)
        names = [SegmentName.parse(info.key.removeprefix(self._prefix + SEGMENTS)) for info in keys]
        headers = [(await self.read(name)).header for name in names if name is not None]
        return min(headers, key=lambda one: one.written_at, default=None)

    async def segments(self, names: Iterable[SegmentName]) -> AsyncIterator[Segment | JournalError]:
        """Segments in the order of `names`, a few at once in memory; for one that is bad, why."""
        for some in batched(names, READ_AT_ONCE, strict=False):
            for found in await asyncio.gather(*(self.read(name) for name in some), return_exceptions=True):
                if isinstance(found, Segment | JournalError):
                    yield found
                else:
                    raise found

    async def _backwards(self) -> list[Segment]:
        """What a restart reads, oldest first: compactions in the place of what they repeat."""
        tip = tip_of(await self._newest())
        if tip is None:
            return []
        segment = await self.read(tip)
        found = [segment]
        while (ref := step_back(segment)) is not None:
            segment = await self._read_ref(ref)
            found.append(segment)
        return found[::-1]

    async def _read_ref(self, ref: SegmentRef) -> Segment:
        name = SegmentName.parse(ref.name)
        assert name is not None
        segment = await self.read(name)
        check_ref(segment, ref)
        return segment

    async def _newest(self) -> list[SegmentName]:
        """The newest names of each level: few, since each level is compacted into the next."""
        found: list[SegmentName] = []
        sequence = 0
        for level in range(MAX_LEVEL, -1, -1):
            found += await self._names(level, sequence)
            sequence = max((name.sequence for name in found), default=0)
        return found

    async def _names(self, level: int, sequence: int = 0) -> list[SegmentName]:
        """Names of a level from `sequence` on."""
        prefix = self._prefix + SEGMENTS
        after = f"{prefix}{level}/{sequence:08d}-" if sequence else ""
        keys = await self._store.list_keys(self._bucket, f"{prefix}{level}/", after)
        names = [SegmentName.parse(info.key.removeprefix(prefix)) for info in keys]
        return [name for name in names if name is not None]

    async def _put(self, name: str, content: bytes, content_type: str) -> None:
        await self._store.put_bytes(self._bucket, self._prefix + name, content, content_type=content_type)


async def add_ledger_runs(store: AsyncS3Store, bucket: str, runs: Iterable[LedgerRun]) -> None:
    """Put runs on the lists of their ledgers; one that is there already stays as it is."""
    for run in runs:
        key = f"{ledger_runs_prefix(run.ledger.digest)}{run.run_uid}.json"
        try:
            await store.head(bucket, key)
        except NoSuchKey:
            await store.put_bytes(bucket, key, canonical_json(run), content_type="application/json")


async def list_ledger_runs(store: AsyncS3Store, bucket: str, ledger_digest: str) -> list[LedgerRun]:
    """Every run on the ledger's list, by start. What cannot be read is logged and left out."""
    found = []
    for info in await store.list_keys(bucket, ledger_runs_prefix(ledger_digest)):
        try:
            content = await store.get_bytes(bucket, info.key, MAX_INDEX_BYTES)
            found.append(LedgerRun.read_leniently(content, strict=True))
        except ValidationError as error:
            log.warning("s3://%s/%s is no entry of a list of runs: %s", bucket, info.key, error)
    return sorted(found, key=lambda run: (run.started_at, run.run_uid))
