"""The fast reader takes exactly the records that the schema takes, and reads the same from them."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from assay.api.attempt_record import AttemptRecord
from assay.core.record_structs import RecordNotPlain, as_struct, content_of, decode_record
from assay.core.records_file import RecordsError, read_records, read_structs
from tests.unit.report.samples import DIGEST, lines, record

FULL: dict[str, Any] = json.loads(
    lines(
        [
            record(
                "a",
                ledger_digest=DIGEST,
                variant_fingerprint=DIGEST,
                figures={"partial": 0.25},
                judgements=[{"criterion": "refusal", "verdict": "clean", "model": "m"}],
                models=["m"],
                calls=[{"model": "m", "role": "main", "tokens": {"input": 5, "cache_write_5m": 1}}],
                tokens={"input": 5, "output": 0},
                seconds={"agent": 1.5},
                total_seconds=2,
                started_at="2026-11-30T12:00:00Z",
                resources={"requested": {"cpu_millis": 500}, "peak": {"memory_mib": 5}},
                images={"environment": "registry.example/task"},
                harness={"harbor": "0.26.0"},
                flags=["tamperSuspected"],
            )
        ]
    )[0]
)

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 10_001),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(
        ["", "a", "Graded", "VerifierCrash", "main", "2026-11-30", f"{DIGEST}\n", "x" * 300, "é"]
    ),
)
values = st.one_of(
    scalars, st.lists(scalars, max_size=2), st.dictionaries(st.sampled_from(["input", "x"]), scalars)
)


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    """A good record with one part replaced, dropped or added, at any depth."""
    document: dict[str, Any] = json.loads(json.dumps(FULL))
    place: Any = document
    while True:
        keys: list[Any] = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = draw(st.sampled_from(keys)) if keys else None
        if key is not None and isinstance(place[key], dict | list) and place[key] and draw(st.booleans()):
            place = place[key]
            continue
        break
    change = draw(st.sampled_from(["replace", "drop", "add"]))
    if isinstance(place, dict) and (change == "add" or key is None):
        place[draw(st.sampled_from(["rewrad", "run_uid", "firstCallAt"]))] = draw(values)
    elif key is not None and change == "drop":
        del place[key]
    elif key is not None:
        place[key] = draw(values)
    return document


@given(documents())
def test_structs_take_what_the_schema_takes_and_nothing_else(document: dict[str, Any]) -> None:
    line = json.dumps(document).encode() + b"\n"
    try:
        expected = AttemptRecord.model_validate_json(line, strict=True)
    except ValidationError:
        with pytest.raises(RecordNotPlain):
            decode_record(line)
        with pytest.raises(RecordsError) as slow:
            list(read_records([line], "file"))
        with pytest.raises(RecordsError) as fast:
            list(read_structs([line], "file"))
        assert str(fast.value) == str(slow.value)
        return
    ((_, struct),) = read_structs([line], "file")
    assert content_of(struct) == content_of(as_struct(expected))
    assert AttemptRecord.model_validate(struct, from_attributes=True) == expected


def test_the_order_of_fields_is_no_difference() -> None:
    turned = dict(reversed(FULL.items()))
    turned["figures"] = {"z": 1, "partial": 0.25}
    other = {**FULL, "figures": {"partial": 0.25, "z": 1.0}}
    first, second = (decode_record(json.dumps(one).encode()) for one in (turned, other))
    assert content_of(first) == content_of(second)


def test_a_record_that_only_pydantic_reads_is_read() -> None:
    """Field names in Python's form are not written by Assay, and were always taken."""
    document = {**FULL, "run_uid": FULL["runUid"]}
    del document["runUid"]
    line = json.dumps(document).encode() + b"\n"
    with pytest.raises(RecordNotPlain):
        decode_record(line)
    ((_, struct),) = read_structs([line], "file")
    assert struct.run_uid == FULL["runUid"]
