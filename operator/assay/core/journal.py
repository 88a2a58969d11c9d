"""The journal of a run as its one writer sees it: what is recorded, and what the next segment is. Pure.

Segments form one chain: each names the digest of the one before it. Several writers may exist for a moment,
when an operator is cut off and does not know yet that another has taken over. The chain is the one that ends
in the newest segment of the highest epoch: a writer with an older epoch can add nothing to it any more.
"""

import gc
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from assay.api.journal import MAX_LEVEL, Compaction, Opening, SegmentHeader, SegmentRef
from assay.core.canonical import digest_of_bytes
from assay.core.packed_tries import PackedTries, tries_since
from assay.core.record import AttemptKey, TryRecord
from assay.core.segments import JournalError, Segment, SegmentName, encode_record, encode_segment

FAN_IN = 32
"""So many segments of a level are compacted into one of the next, which a restart reads in their place."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A segment that is to be written. Writing it again, after an answer that was lost, changes nothing."""

    name: SegmentName
    content: bytes
    header: SegmentHeader
    records: tuple[TryRecord, ...]
    """New ones; of a compaction all that it repeats."""

    @property
    def ref(self) -> SegmentRef:
        """How the next segment names this one."""
        return SegmentRef(name=str(self.name), digest=digest_of_bytes(self.content))


@dataclass(frozen=True, slots=True)
class _Span:
    """Part of the chain that a restart reads as one segment."""

    level: int
    first: int
    before: SegmentRef | None
    start: int
    """Index of its first entry among all entries."""


class Journal:
    """Everything durable of one run, and the drafts that continue it. `commit` what was written."""

    def __init__(self, run_uid: str, epoch: int) -> None:
        self.run_uid, self.epoch = run_uid, epoch
        self.head: SegmentRef | None = None
        self.sequence = 0
        """Of the head; 0 where there is no segment yet."""
        self._records = PackedTries()
        self._spans: list[_Span] = []

    @classmethod
    def replay(cls, run_uid: str, epoch: int, segments: Iterable[Segment]) -> "Journal":
        """The journal from what `backwards` found, oldest first. Raises JournalError."""
        journal = cls(run_uid, epoch)
        # Nothing here makes a cycle, and the collector would walk all that is kept again and again.
        collecting = gc.isenabled()
        gc.disable()
        try:
            for segment in segments:
                if segment.header.epoch > epoch:
                    raise JournalError(f"segment {segment.name} is newer than this process, of epoch {epoch}")
                journal._add(segment)
        finally:
            if collecting:
                gc.enable()
        return journal

    @property
    def records(self) -> Mapping[str, TryRecord]:
        """Recorded tries by Job name."""
        return self._records

    def next_segment(
        self, records: Iterable[TryRecord], now: datetime, opening: Opening | None = None
    ) -> Draft:
        """The segment of these records; those that are recorded already are left out.

        The first segment has the run's `opening`, later ones must have none.
        """
        new = {one.job_name: one for one in records if one.job_name not in self._records}
        return self._draft(self._header(0, len(new), now, opening=opening), tuple(new.values()))

    def next_compaction(self, now: datetime) -> Draft | None:
        """The segment that stands for the last `FAN_IN` of one level; None while there are not so many."""
        spans = self._spans[-FAN_IN:]
        level = spans[-1].level if spans else MAX_LEVEL
        if len(spans) < FAN_IN or level == MAX_LEVEL or any(one.level != level for one in spans):
            return None
        first = spans[0]
        repeated = tuple(tries_since(self._records, first.start))
        compaction = Compaction(first=first.first, before=first.before)
        return self._draft(self._header(level + 1, len(repeated), now, compaction=compaction), repeated)

    def commit(self, draft: Draft) -> None:
        """The draft is durable."""
        compaction = draft.header.compaction
        if compaction is None:
            self._spans.append(_Span(0, draft.header.sequence, self.head, len(self._records)))
            for record in draft.records:
                self._records.add(record)
        else:
            start = self._spans[-FAN_IN].start
            del self._spans[-FAN_IN:]
            self._spans.append(_Span(draft.header.level, compaction.first, compaction.before, start))
        self.head, self.sequence = draft.ref, draft.header.sequence

    def _add(self, segment: Segment) -> None:
        header = segment.header
        first = header.compaction.first if header.compaction else header.sequence
        before = header.compaction.before if header.compaction else header.previous
        if before != self.head:
            raise JournalError(
                f"segment {segment.name} does not follow {self.head.name if self.head else '-'}"
            )
        self._spans.append(_Span(header.level, first, before, len(self._records)))
        for record in segment.records():
            if record.job_name in self._records:
                raise JournalError(f"segment {segment.name} records Job {record.job_name} a second time")
            self._records.add(record)
        self.head, self.sequence = segment.ref, header.sequence

    def _header(
        self,
        level: int,
        entries: int,
        now: datetime,
        *,
        opening: Opening | None = None,
        compaction: Compaction | None = None,
    ) -> SegmentHeader:
        return SegmentHeader(
            run_uid=self.run_uid,
            sequence=self.sequence + 1,
            epoch=self.epoch,
            level=level,
            previous=self.head,
            written_at=now,
            entries=entries,
            opening=opening,
            compaction=compaction,
        )

    def _draft(self, header: SegmentHeader, records: tuple[TryRecord, ...]) -> Draft:
        name = SegmentName(header.level, header.sequence, header.epoch)
        lines = [encode_record(one) for one in records]
        return Draft(name, encode_segment(header, lines), header, records)


def tip_of(names: Iterable[SegmentName]) -> SegmentName | None:
    """The segment that the chain ends in: the last one of the highest epoch."""
    return max(names, key=lambda name: (name.epoch, name.sequence), default=None)


def step_back(segment: Segment) -> SegmentRef | None:
    """What a restart reads before `segment`: a compaction stands for all that it repeats."""
    compaction = segment.header.compaction
    return compaction.before if compaction else segment.header.previous


def check_ref(segment: Segment, ref: SegmentRef) -> None:
    """Raises JournalError if the segment is not the one that the reference means."""
    if segment.digest != ref.digest:
        raise JournalError(
            f"segment {segment.name} has digest {segment.digest}, the next one names {ref.digest}: it was "
            "changed after it was written"
        )


def tries_of(records: Iterable[TryRecord]) -> dict[AttemptKey, list[TryRecord]]:
    """Recorded tries of each attempt, by their numbers."""
    tries: dict[AttemptKey, list[TryRecord]] = defaultdict(list)
    for record in records:
        tries[record.key].append(record)
    for found in tries.values():
        found.sort(key=lambda record: record.try_number)
    return dict(tries)
