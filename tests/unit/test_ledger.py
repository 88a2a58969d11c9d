"""Reading a ledger file: exactly its bytes, or an error that names line and field."""

import contextlib
import json

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from assay.core.canonical import CanonicalError, canonical_json, digest_of
from assay.core.ledger import LedgerFileError, normalised_repository, parse_ledger, render_ledger
from tests.unit.ledger_tasks import BUILD, build, task

LEDGER = build(task("org/one"), task("org/two", commit="c" * 40))
BYTES = render_ledger(LEDGER.header, LEDGER.tasks)


def changed(line: int, **fields: object) -> bytes:
    """The ledger's bytes with fields of one line (from 1) replaced, in canonical form."""
    lines = BYTES.splitlines()
    lines[line - 1] = canonical_json({**json.loads(lines[line - 1]), **fields})
    return b"".join(one + b"\n" for one in lines)


def test_what_was_rendered_is_read_back() -> None:
    again = parse_ledger(BYTES)
    assert again == LEDGER
    assert render_ledger(again.header, again.tasks) == BYTES


def test_a_line_is_what_a_third_party_can_check_alone() -> None:
    line = json.loads(BYTES.splitlines()[1])
    stated = line.pop("lineDigest")
    assert digest_of(line) == stated


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "line 1: the file must end with a newline"),
        (BYTES[:-1], "line 3: the file must end with a newline; it may be cut short"),
        (BYTES[: len(BYTES) // 2], "the file must end with a newline"),
        (b"\n", "line 1: "),
        (BYTES + b"\n", "line 4: "),
        (b"\xef\xbb\xbf" + BYTES, "line 1: "),
        (BYTES.replace(b"\n", b"\r\n"), "line 1: is not in canonical form"),
        (BYTES.replace(b'":', b'": ', 1), "line 1: is not in canonical form"),
        (BYTES.replace(b"sample", b"\xff\xfe", 1), "line 1: "),
        (changed(1, taskCount=3), "line 1: taskCount is 3, but 2 task lines follow"),
        (changed(1, taskCount=True), "line 1: taskCount"),
        (changed(1, schemaVersion=2), "line 1: schemaVersion"),
        (changed(1, surprise=1), "line 1: surprise"),
        (changed(2, network="maybe"), "line 2: network"),
        (changed(2, archiveDigest="sha256:abc"), "line 2: archiveDigest"),
        (changed(2, category="other"), "line 2: lineDigest of task org/one"),
        (changed(3, images={"environment": "registry.example/task:1"}), "line 3: images.environment"),
    ],
)
def test_anything_else_is_refused(content: bytes, says: str) -> None:
    with pytest.raises(LedgerFileError, match=says.replace("[", r"\[")):
        parse_ledger(content)


def test_order_and_doubles_are_part_of_the_form() -> None:
    header, one, two = BYTES.splitlines(keepends=True)
    with pytest.raises(LedgerFileError, match="line 3: task org/one must stand before org/two"):
        parse_ledger(header + two + one)
    with pytest.raises(LedgerFileError, match="line 3: task org/one is there twice"):
        parse_ledger(header + one + one)


def test_a_duplicate_key_is_refused() -> None:
    twice = BYTES.replace(b'{"allowUnknown":[],', b'{"allowUnknown":[],"allowUnknown":[],', 1)
    with pytest.raises(LedgerFileError, match="line 1: "):
        parse_ledger(twice)


def test_an_unknown_fact_needs_the_header_s_leave() -> None:
    unknown = {"value": "unknown", "source": "nobody", "date": "2026-01-01"}
    ledger = build(
        task(),
        allow_unknown=["licence"],
        defaults={**BUILD["defaults"], "licence": unknown, "difficulty": unknown | {"value": "easy"}},
    )
    content = render_ledger(ledger.header.model_copy(update={"allow_unknown": []}), ledger.tasks)
    with pytest.raises(LedgerFileError, match="line 2: licence of task org/one is unknown"):
        parse_ledger(content)


@settings(deadline=None)
@given(st.integers(0, len(BYTES) - 1), st.integers(0, 255))
def test_no_single_byte_can_change_unnoticed(place: int, byte: int) -> None:
    forged = BYTES[:place] + bytes([byte]) + BYTES[place + 1 :]
    assume(forged != BYTES)
    with contextlib.suppress(LedgerFileError):
        assert parse_ledger(forged).digest != LEDGER.digest


@settings(deadline=None)
@given(st.binary(max_size=400))
def test_rubbish_never_does_worse_than_being_refused(content: bytes) -> None:
    with pytest.raises(LedgerFileError):
        parse_ledger(content)


@pytest.mark.parametrize(
    "address",
    ["https://github.com/PyCQA/bandit.git", "https://github.com/PyCQA/bandit/", "github.com/pycqa/bandit"],
)
def test_one_repository_has_one_form(address: str) -> None:
    assert normalised_repository(address) == "github.com/pycqa/bandit"


def test_canonical_json_follows_rfc_8785() -> None:
    assert canonical_json({"b": [1e21, 0.1, True, None], "a": "\u20ac\x0f", "\u00e9": 1, "A": 2}) == (
        '{"A":2,"a":"€\\u000f","b":[1e+21,0.1,true,null],"é":1}'.encode()
    )
    for bad in (float("nan"), float("inf"), 2**60, {1: 2}, b"bytes"):
        with pytest.raises(CanonicalError):
            canonical_json(bad)
