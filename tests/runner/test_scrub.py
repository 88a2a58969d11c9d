"""Secrets never leave the pod (cases.md BAR 11)."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.runner.scrub import Scrubber

LITERAL = "eyJ-projected+token/of=the~pod.0123456789"


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("key=sk-ant-api03-AbC_d-9", "key=[scrubbed:anthropic]"),
        ("sk-proj-abc123DEF", "[scrubbed:openai]"),
        ("sk-" + "a1" * 24, "[scrubbed:openai]"),
        ("AIzaSyA-1234567890abcdefghijklmnopqrstu", "[scrubbed:google]"),
        ("id AKIAIOSFODNN7EXAMPLE.", "id [scrubbed:aws]."),
        ("Authorization: Bearer abc123def", "Authorization: Bearer [scrubbed:bearer]"),
        ("authorization: bearer " + "x" * 30, "authorization: bearer [scrubbed:bearer]"),
        ("X-Api-Key: hunter2", "X-Api-Key: [scrubbed:header]"),
        ('{"x-api-key": "hunter2"}', '{"x-api-key": "[scrubbed:header]"}'),
        ('{\\"x-api-key\\": \\"hunter2\\"}', '{\\"x-api-key\\": \\"[scrubbed:header]\\"}'),
        (f"the {LITERAL}!", "the [scrubbed:known]!"),
    ],
)
def test_secrets_are_replaced(text: str, clean: str) -> None:
    assert Scrubber([LITERAL]).scrub_text(text) == clean


@pytest.mark.parametrize(
    "text",
    [
        "a bearer token",
        "Bearer authentication",
        "the task-queue-with-many-priorities-2",
        "trial/desk-organizer-of-long-name-1/x",
        "sk-learn-compatible-estimators-everywhere",
        "AKIA",
        "x-api-key header",
    ],
)
def test_ordinary_text_stays(text: str) -> None:
    assert Scrubber([LITERAL]).scrub_text(text) == text


def test_values_that_are_added_later_count() -> None:
    scrubber = Scrubber()
    scrubber.add("rotated-token-2")
    scrubber.add("short")
    assert scrubber.scrub(b"rotated-token-2 short") == b"[scrubbed:known] short"


secrets = st.sampled_from(
    [
        b"sk-ant-api03-abcdefgh1234",
        b"sk-proj-zyxw9876",
        b"AKIAIOSFODNN7EXAMPLE",
        b"Bearer a1b2c3d4e5",
        LITERAL.encode(),
    ]
)
noise = st.binary(max_size=40).filter(lambda data: b"sk-" not in data)
pieces = st.lists(noise | secrets | st.integers(1, 9).map(lambda n: b" " * n * 7000), max_size=20)


@given(pieces, st.integers(1, 50_000))
@settings(deadline=None)
def test_no_secret_survives_however_the_stream_is_cut(parts: list[bytes], size: int) -> None:
    # Separated, as a key that runs into other text is another string.
    data = b" \n ".join(parts)
    stream = (data[start : start + size] for start in range(0, len(data), size))
    clean = b"".join(Scrubber([LITERAL]).stream(stream))
    for secret in (b"sk-ant-api", b"sk-proj-z", b"AKIAIOS", b"a1b2c3d4e5", LITERAL.encode()):
        assert secret not in clean


@given(pieces, st.integers(0, 100_000), st.sampled_from([b" \n ", b" "]))
@settings(deadline=None)
def test_of_a_file_that_is_still_written_no_half_secret_leaves(
    parts: list[bytes], written: int, between: bytes
) -> None:
    data = between.join(parts)[:written]
    clean = b"".join(Scrubber([LITERAL]).stream((data,), unfinished=True))
    for secret in (b"sk-ant-", b"sk-pro", b"AKIAI", b"a1b2", LITERAL.encode()[:6]):
        assert secret not in clean


def test_whole_lines_of_an_unfinished_file_are_kept() -> None:
    lines = b"one\ntwo\nthree" + b"x" * 100
    assert b"".join(Scrubber().stream((lines,), unfinished=True)) == b"one\ntwo\n"


@given(
    st.recursive(st.text() | st.sampled_from(["Bearer abc123def", "sk-ant-x1234", "x-api-key: 1"]), st.lists)
)
@settings(deadline=None)
def test_json_stays_json(value: object) -> None:
    for document in (json.dumps(value), json.dumps({"x-api-key": value, "nested": json.dumps(value)})):
        json.loads(Scrubber([LITERAL]).scrub(document.encode()))


def test_memory_does_not_grow_with_the_stream() -> None:
    longest = 0
    for piece in Scrubber([LITERAL]).stream(b"x" * 100_000 for _ in range(50)):
        longest = max(longest, len(piece))
    assert longest < 600_000
