"""A third party finds every edit, gap and reorder before the head that it holds."""

import gzip
import json
from collections.abc import Callable

import pytest

from assay.core.canonical import digest_of_bytes
from assay.core.journal import Draft, Journal
from assay.core.journal_check import ChainCheck, ChainReport
from assay.core.segments import JournalError, SegmentName, decode_segment
from tests.unit.journal.memory import NOW, RUN_UID, record

Stored = dict[SegmentName, bytes]


def written(segments: int = 40) -> tuple[Stored, str]:
    """A journal with a compaction in it, and the digest of its head."""
    journal, stored = Journal(RUN_UID, 1), Stored()
    for number in range(segments):
        draft: Draft | None = journal.next_segment([record(number)], NOW)
        while draft is not None:
            stored[draft.name] = draft.content
            journal.commit(draft)
            draft = journal.next_compaction(NOW)
    assert journal.head is not None
    return stored, journal.head.digest


def report(stored: Stored, head: str | None) -> ChainReport:
    check = ChainCheck()
    for name in sorted(stored, key=lambda name: (name.sequence, name.epoch)):
        try:
            check.add(decode_segment(stored[name], name, RUN_UID))
        except JournalError as error:
            check.add(error)
    return check.report(head)


def at(stored: Stored, sequence: int) -> SegmentName:
    return next(name for name in stored if name.sequence == sequence)


def rewrite(content: bytes, change: Callable[[list[bytes]], list[bytes]]) -> bytes:
    return gzip.compress(b"\n".join(change(gzip.decompress(content).split(b"\n"))), mtime=0)


def edit(stored: Stored) -> None:
    name = at(stored, 5)
    stored[name] = gzip.compress(
        gzip.decompress(stored[name]).replace(b'"reward":1.0', b'"reward":0.5'), mtime=0
    )


def repack(stored: Stored) -> None:
    """The same lines, packed otherwise: still not the bytes that were written."""
    name = at(stored, 5)
    stored[name] = gzip.compress(gzip.decompress(stored[name]), compresslevel=1, mtime=1)


def remove(stored: Stored) -> None:
    del stored[at(stored, 5)]


def swap(stored: Stored) -> None:
    """Two segments change places, headers and names made to fit."""
    first, second = at(stored, 5), at(stored, 6)
    lines = [gzip.decompress(stored[name]).split(b"\n") for name in (first, second)]
    stored[first] = gzip.compress(b"\n".join([lines[0][0], *lines[1][1:]]), mtime=0)
    stored[second] = gzip.compress(b"\n".join([lines[1][0], *lines[0][1:]]), mtime=0)


def cut_short(stored: Stored) -> None:
    for sequence in (40, 41):
        del stored[at(stored, sequence)]


def edit_the_head(stored: Stored) -> None:
    name = at(stored, 41)
    stored[name] = gzip.compress(
        gzip.decompress(stored[name]).replace(b'"reward":1.0', b'"reward":0.5'), mtime=0
    )


def forge_everything(stored: Stored) -> None:
    """Written anew from the beginning, a chain as sound as the first one."""
    journal = Journal(RUN_UID, 1)
    stored.clear()
    for number in range(41):
        draft = journal.next_segment([record(number, reward=0.5)], NOW)
        stored[draft.name] = draft.content
        journal.commit(draft)


def damage(stored: Stored) -> None:
    stored[at(stored, 5)] = stored[at(stored, 5)][:-9]


@pytest.mark.parametrize(
    "tamper", [edit, repack, remove, swap, cut_short, edit_the_head, forge_everything, damage]
)
def test_what_was_tampered_with_is_found(tamper: Callable[[Stored], None]) -> None:
    stored, head = written()
    assert report(stored, head).problems == ()
    tamper(stored)
    assert report(stored, head).problems


def test_a_compaction_that_says_something_else_is_found() -> None:
    """Even where the chain was written anew behind it."""
    journal, stored = Journal(RUN_UID, 1), Stored()
    for number in range(32):
        draft = journal.next_segment([record(number)], NOW)
        stored[draft.name] = draft.content
        journal.commit(draft)
    compaction = journal.next_compaction(NOW)
    assert compaction is not None
    content = gzip.compress(
        gzip.decompress(compaction.content).replace(b'"reward":1.0', b'"reward":0.5', 1), mtime=0
    )
    stored[compaction.name] = content
    (problem,) = report(stored, digest_of_bytes(content)).problems
    assert "0033" in problem
    assert "does not repeat what it stands for" in problem


def test_the_report_names_the_segment_and_what_is_wrong_with_it() -> None:
    stored, head = written()
    remove(stored)
    assert "segment 0/00000005-000000000001.jsonl.gz is missing" in report(stored, head).problems[0]


def test_an_empty_journal_has_no_head_and_no_problem() -> None:
    assert report({}, None) == ChainReport(None, 0, 0, (), None)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda lines: [*lines[:-1], b"{}", b""], "it has 2 entries, its header says 1"),
        (lambda lines: lines[:-1], "ends in the middle of a line"),
        (
            lambda lines: [lines[0].replace(b'"epoch":1', b'"epoch":2'), *lines[1:]],
            "its header says that it is",
        ),
        (lambda lines: [lines[0].replace(b'"sequence":1', b'"sequence":0'), *lines[1:]], "field sequence"),
        (lambda lines: [lines[0].replace(RUN_UID.encode(), b"2" * 36), *lines[1:]], "it is of run 2222"),
        (lambda lines: [b"nonsense", *lines[1:]], "header: field"),
    ],
)
def test_a_segment_that_is_not_what_its_name_says_is_refused(
    change: Callable[[list[bytes]], list[bytes]], words: str
) -> None:
    stored, _ = written(1)
    ((name, content),) = stored.items()
    with pytest.raises(JournalError, match=words):
        decode_segment(rewrite(content, change), name, RUN_UID)


def test_an_entry_with_a_bad_field_is_refused_with_its_line() -> None:
    stored, _ = written(1)
    ((name, content),) = stored.items()

    def spoil(lines: list[bytes]) -> list[bytes]:
        entry = json.loads(lines[1]) | {"reward": True}
        return [lines[0], json.dumps(entry).encode(), b""]

    segment = decode_segment(rewrite(content, spoil), name, RUN_UID)
    with pytest.raises(JournalError, match="line 2: field reward"):
        list(segment.records())


def test_a_segment_that_unpacks_to_more_than_anybody_wrote_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("assay.core.segments.MAX_SEGMENT_BYTES", 1000)
    with pytest.raises(JournalError, match="unpacked it has more than 1000 bytes"):
        decode_segment(gzip.compress(b"0" * 5000), SegmentName(0, 1, 1), RUN_UID)
