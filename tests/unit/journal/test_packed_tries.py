"""What is packed comes out as it went in, whatever it is."""

from dataclasses import fields, replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from assay.api.outcome import OutcomeClass
from assay.core.packed_tries import PackedTries, tries_since
from assay.core.record import AttemptKey, TryRecord, TryTokens
from tests.operator_kit.builders import NOW

TEXTS = st.text(max_size=5) | st.sampled_from([one.value for one in OutcomeClass])
COUNTS = st.none() | st.integers(0, 1 << 53)
NUMBERS = st.none() | st.floats(0, 1e9)
HEX = st.binary(min_size=32, max_size=32).map(bytes.hex)
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "key": st.builds(AttemptKey, TEXTS, TEXTS, TEXTS, st.integers(0, 99)),
    "try_number": st.integers(1, 50),
    "job_name": st.text(min_size=1, max_size=9),
    "outcome": st.sampled_from(OutcomeClass),
    "reason": TEXTS,
    "ended_at": st.timedeltas(timedelta(), timedelta(days=900)).map(NOW.__add__),
    "pod_uid": TEXTS | st.uuids().map(str) | st.uuids().map(lambda one: str(one).upper()),
    "reward": NUMBERS,
    "agent_timed_out": st.booleans(),
    "setup_seconds": NUMBERS,
    "agent_seconds": NUMBERS,
    "verifier_seconds": NUMBERS,
    "upload_seconds": NUMBERS,
    "total_seconds": NUMBERS,
    "tokens": st.builds(TryTokens, COUNTS, COUNTS, COUNTS, COUNTS, COUNTS, COUNTS),
    "model_calls": COUNTS,
    "harbor_version": TEXTS,
    "harness_commit": TEXTS,
    "manifest_digest": TEXTS | HEX | HEX.map("sha256:".__add__),
    "images": st.lists(st.tuples(TEXTS, TEXTS), max_size=2).map(tuple),
    "flags": st.lists(TEXTS, max_size=2).map(tuple),
    "verifies": st.none() | st.integers(1, 9),
    "artifacts_digest": TEXTS | HEX.map("sha256:".__add__),
    "graded_as": st.none() | st.sampled_from(OutcomeClass),
    "cost_usd": st.none() | st.decimals(0, 1000, allow_nan=False),
}
RECORDS = st.builds(TryRecord, **FIELDS)


def test_no_field_is_left_out() -> None:
    assert {one.name for one in fields(TryRecord)} == set(FIELDS)


@given(st.lists(RECORDS, unique_by=lambda record: record.job_name, max_size=5))
def test_every_try_comes_out_as_it_went_in(records: list[TryRecord]) -> None:
    packed = PackedTries()
    for record in records:
        packed.add(record)
    assert list(packed.items()) == [(one.job_name, one) for one in records]
    assert [repr(one) for one in packed.values()] == [repr(one) for one in records]


def test_what_is_not_there_is_not_found() -> None:
    assert PackedTries().get("job") is None
    assert "job" not in PackedTries()


def test_later_tries_are_read_without_the_earlier_ones() -> None:
    first = TryRecord(AttemptKey("l", "t", "v", 0), 1, "a", OutcomeClass.GRADED, "", NOW, cost_usd=Decimal(1))
    second = replace(first, job_name="b")
    assert list(tries_since({"a": first, "b": second}, 1)) == [second]
