"""Segments of the journal: records to bytes and back, and the names they have in S3. Pure.

What is read is bad until validated: a segment that does not say exactly what its name and its size say is
refused, with words that name the segment and the field.
"""

import gzip
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC
from functools import lru_cache
from itertools import islice
from sys import intern
from typing import NamedTuple

from pydantic import ValidationError

from assay.api.base import first_problem
from assay.api.journal import MAX_LEVEL, Fence, JournalEntry, SegmentHeader, SegmentRef
from assay.core.canonical import canonical_json, digest_of_bytes
from assay.core.record import AttemptKey, TryRecord, TryTokens

SEGMENTS = "segments/"
FENCES = "fences/"
MAX_SEGMENT_BYTES = 256 << 20
"""Of a segment, stored or unpacked: a hundred thousand entries have about 60 MB."""
_MAX_FLAGS, _MAX_IMAGES = 50, 32
_UNPACKED_AT_ONCE = 1 << 20
_WHOLE = {0.0: 0.0, 1.0: 1.0}
"""Most rewards are one of these: two objects in memory, not a hundred thousand."""
_NAME = re.compile(rf"([0-{MAX_LEVEL}])/([0-9]{{8}})-([0-9]{{12}})\.jsonl\.gz")
_FENCE = re.compile(r"([0-9]{12})\.json")


class JournalError(ValueError):
    """The journal is not what its writer left: the message names the segment and what is wrong with it."""


class SegmentName(NamedTuple):
    """Name of a segment below `journal/segments/`. No two processes ever write the same one."""

    level: int
    sequence: int
    epoch: int

    def __str__(self) -> str:
        return f"{self.level}/{self.sequence:08d}-{self.epoch:012d}.jsonl.gz"

    @classmethod
    def parse(cls, text: str) -> "SegmentName | None":
        """Read `str`; None for what is no segment."""
        found = _NAME.fullmatch(text)
        return cls(*map(int, found.groups())) if found else None


def fence_name(epoch: int) -> str:
    """Name of the fence of an epoch below `journal/fences/`."""
    return f"{epoch:012d}.json"


def fence_epoch(name: str) -> int | None:
    """Epoch of a fence from its name; None for what is no fence."""
    found = _FENCE.fullmatch(name)
    return int(found[1]) if found else None


def render_fence(fence: Fence) -> bytes:
    """The bytes of a fence."""
    return canonical_json(fence)


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment that was read and says what its name says."""

    name: SegmentName
    digest: str
    header: SegmentHeader
    content: bytes
    """As it is stored: a tenth of what it holds, of which a large journal has many at once."""

    @property
    def ref(self) -> SegmentRef:
        """How the next segment names this one."""
        return SegmentRef(name=str(self.name), digest=self.digest)

    def records(self) -> Iterator[TryRecord]:
        """The entries, each made when it is asked for. Raises JournalError for one that is no valid entry."""
        lines = islice(_lines(self.content, self.name), 1, None)
        return (self._record(number, line) for number, line in enumerate(lines, 2))

    def _record(self, number: int, line: bytes) -> TryRecord:
        try:
            return record_of(JournalEntry.model_validate_json(line, strict=True))
        except ValidationError as error:
            raise JournalError(f"segment {self.name}, line {number}: {first_problem(error)}") from error


def encode_segment(header: SegmentHeader, lines: Sequence[bytes]) -> bytes:
    """The stored bytes. The same input gives the same bytes, so that a write may be repeated."""
    text = b"".join(line + b"\n" for line in (canonical_json(header), *lines))
    return gzip.compress(text, compresslevel=6, mtime=0)


def encode_record(record: TryRecord) -> bytes:
    """The line of a record."""
    return entry_of(record).model_dump_json(exclude_defaults=True, by_alias=True).encode()


def decode_segment(content: bytes, name: SegmentName, run_uid: str) -> Segment:
    """Read a segment. Raises JournalError."""
    lines = _lines(content, name)
    try:
        header = SegmentHeader.model_validate_json(next(lines, b""), strict=True)
    except ValidationError as error:
        raise JournalError(f"segment {name}, header: {first_problem(error)}") from error
    stated = SegmentName(header.level, header.sequence, header.epoch)
    if stated != name:
        raise JournalError(f"segment {name}: its header says that it is {stated}")
    if header.run_uid != run_uid:
        raise JournalError(f"segment {name}: it is of run {header.run_uid}, not of {run_uid}")
    entries = sum(1 for _ in lines)
    if header.entries != entries:
        raise JournalError(f"segment {name}: it has {entries} entries, its header says {header.entries}")
    if (header.previous is None) != (header.sequence == 1):
        raise JournalError(f"segment {name}: field previous must be absent in the first segment alone")
    return Segment(name, digest_of_bytes(content), header, content)


def entry_of(record: TryRecord) -> JournalEntry:
    """The entry of a record."""
    return JournalEntry(
        ledger=record.key.ledger,
        task=record.key.task,
        variant=record.key.variant,
        repetition=record.key.repetition,
        try_number=record.try_number,
        job_name=record.job_name,
        pod_uid=record.pod_uid,
        outcome=record.outcome,
        reason=record.reason[:1000],
        ended_at=record.ended_at,
        reward=record.reward,
        agent_timed_out=record.agent_timed_out,
        setup_seconds=record.setup_seconds,
        agent_seconds=record.agent_seconds,
        verifier_seconds=record.verifier_seconds,
        upload_seconds=record.upload_seconds,
        total_seconds=record.total_seconds,
        tokens=record.tokens.counts(),
        model_calls=record.model_calls,
        harbor_version=record.harbor_version[:50],
        harness_commit=record.harness_commit[:40],
        manifest_digest=record.manifest_digest,
        images=dict(record.images[:_MAX_IMAGES]),
        flags=list(record.flags[:_MAX_FLAGS]),
        verifies=record.verifies,
        artifacts_digest=record.artifacts_digest,
        graded_as=record.graded_as,
        cost_usd=record.cost_usd,
    )


def record_of(entry: JournalEntry) -> TryRecord:
    """The record of an entry. What many records share is kept in memory once."""
    return TryRecord(
        key=AttemptKey(intern(entry.ledger), intern(entry.task), intern(entry.variant), entry.repetition),
        try_number=entry.try_number,
        job_name=entry.job_name,
        outcome=entry.outcome,
        reason=intern(entry.reason),
        ended_at=entry.ended_at.astimezone(UTC),
        pod_uid=entry.pod_uid,
        reward=None if entry.reward is None else _WHOLE.get(entry.reward, entry.reward),
        agent_timed_out=entry.agent_timed_out,
        setup_seconds=entry.setup_seconds,
        agent_seconds=entry.agent_seconds,
        verifier_seconds=entry.verifier_seconds,
        upload_seconds=entry.upload_seconds,
        total_seconds=entry.total_seconds,
        tokens=TryTokens.of(entry.tokens),
        model_calls=entry.model_calls,
        harbor_version=intern(entry.harbor_version),
        harness_commit=intern(entry.harness_commit),
        manifest_digest=entry.manifest_digest,
        images=_shared_images(tuple(sorted(entry.images.items()))),
        flags=tuple(entry.flags),
        verifies=entry.verifies,
        artifacts_digest=entry.artifacts_digest,
        graded_as=entry.graded_as,
        cost_usd=entry.cost_usd,
    )


@lru_cache(maxsize=4096)
def _shared_images(images: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """The same object for the same images: all tries of a task have them in common."""
    return tuple((intern(name), intern(image)) for name, image in images)


def _lines(content: bytes, name: SegmentName) -> Iterator[bytes]:
    """The lines of a gzip file, header first, a part of it unpacked at a time. Raises JournalError."""
    reader, rest, size = zlib.decompressobj(wbits=31), b"", 0
    while not reader.eof:
        try:
            text = reader.decompress(content, _UNPACKED_AT_ONCE)
        except zlib.error as error:
            raise JournalError(f"segment {name}: it is no gzip file: {error}") from error
        content, size = reader.unconsumed_tail, size + len(text)
        if size > MAX_SEGMENT_BYTES:
            raise JournalError(f"segment {name}: unpacked it has more than {MAX_SEGMENT_BYTES} bytes")
        if not (text or content or reader.eof):
            raise JournalError(f"segment {name}: the gzip file is cut short")
        *whole, rest = (rest + text).split(b"\n")
        yield from whole
    if reader.unused_data:
        raise JournalError(f"segment {name}: something follows the gzip file")
    if rest:
        raise JournalError(f"segment {name}: it ends in the middle of a line")
