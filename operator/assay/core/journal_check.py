"""The third party's check of a journal: edits, gaps and reorders before a head that the reader holds. Pure.

It trusts nothing but the head. Segments come one at a time, in the order of their sequence; of each only its
links and a digest of each line are kept.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from assay.api.journal import SegmentHeader, SegmentRef
from assay.core.journal import tip_of
from assay.core.record import TryRecord
from assay.core.segments import JournalError, Segment, SegmentName, encode_record

_LINE_DIGEST = 16


@dataclass(frozen=True, slots=True)
class ChainReport:
    """What a check found. The journal is sound if there are no problems."""

    head: SegmentRef | None
    segments: int
    """Of the chain."""
    entries: int
    epochs: tuple[int, ...]
    """Of the operator processes that wrote the chain, in order."""
    opening: SegmentHeader | None
    """Header of the first segment."""
    strays: tuple[SegmentName, ...] = ()
    """Segments that an operator wrote after another had taken over: no part of the journal."""
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Link:
    name: SegmentName
    digest: str
    header: SegmentHeader
    lines: bytes
    """Digests of the entries, one behind the other. Of what they say: a compaction may spell it otherwise."""


def _digest(record: TryRecord) -> bytes:
    return hashlib.blake2b(encode_record(record), digest_size=_LINE_DIGEST).digest()


@dataclass(slots=True)
class ChainCheck:
    """Add every segment that there is, then ask for the report."""

    _links: dict[SegmentName, _Link] = field(default_factory=dict)
    _problems: list[str] = field(default_factory=list)

    def add(self, found: Segment | JournalError) -> None:
        """A segment, or why it could not be read."""
        if isinstance(found, JournalError):
            self._problems.append(str(found))
            return
        try:
            lines = b"".join(_digest(record) for record in found.records())
        except JournalError as error:
            self._problems.append(str(error))
            return
        self._links[found.name] = _Link(found.name, found.digest, found.header, lines)

    def report(self, head: str | None = None) -> ChainReport:
        """The result. `head` is the digest of a segment that the reader has from anywhere but the journal."""
        tip = tip_of(self._links)
        chain = list(self._chain(tip))[::-1] if tip else []
        self._check_lines(chain)
        if head is not None and head not in {link.digest for link in chain}:
            self._problems.append(
                f"the head {head} that you hold is no segment of this chain: what was recorded up to it was "
                "removed or changed"
            )
        inside = {link.name for link in chain}
        epochs = tuple(dict.fromkeys(link.header.epoch for link in chain))
        return ChainReport(
            head=SegmentRef(name=str(chain[-1].name), digest=chain[-1].digest) if chain else None,
            segments=len(chain),
            entries=sum(link.header.entries for link in chain if link.header.compaction is None),
            epochs=epochs,
            opening=chain[0].header if chain and chain[0].header.sequence == 1 else None,
            strays=tuple(sorted(set(self._links) - inside)),
            problems=tuple(self._problems),
        )

    def _chain(self, tip: SegmentName) -> Iterator[_Link]:
        """From the tip to the first segment, as far as it goes."""
        link = self._links[tip]
        yield link
        while (ref := link.header.previous) is not None:
            name = SegmentName.parse(ref.name)
            assert name is not None
            if name.sequence != link.name.sequence - 1 or name.epoch > link.name.epoch:
                self._problems.append(f"segment {link.name} names {name} as the one before it")
                return
            before = self._links.get(name)
            if before is None:
                self._problems.append(f"segment {name} is missing or unreadable; {link.name} follows it")
                return
            if before.digest != ref.digest:
                self._problems.append(
                    f"segment {name} was changed: its digest is {before.digest}, "
                    f"{link.name} names {ref.digest}"
                )
            link = before
            yield link

    def _check_lines(self, chain: list[_Link]) -> None:
        """Each entry once; each compaction what it stands for."""
        every = bytearray()
        starts: dict[int, int] = {}
        seen: dict[bytes, SegmentName] = {}
        for link in chain:
            starts[link.header.sequence] = len(every)
            compaction = link.header.compaction
            if compaction is not None:
                start = starts.get(compaction.first)
                if start is None or every[start:] != link.lines:
                    self._problems.append(f"segment {link.name} does not repeat what it stands for")
                continue
            for place in range(0, len(link.lines), _LINE_DIGEST):
                line = link.lines[place : place + _LINE_DIGEST]
                if line in seen:
                    self._problems.append(f"segment {link.name} repeats an entry of {seen[line]}")
                seen[line] = link.name
            every += link.lines
