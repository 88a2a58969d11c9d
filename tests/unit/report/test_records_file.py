"""Bad records: every refusal names the file, the line, the field and what to do, and none is dropped."""

import json
from typing import Any

import pytest

from assay.core.records_file import RecordsError, read_records
from tests.unit.report.samples import lines, record


def read(*given: bytes) -> list[Any]:
    return [one for _, one in read_records(given, "attempts.jsonl")]


def changed(**changes: Any) -> bytes:
    document = json.loads(lines([record("a")])[0])
    return json.dumps({**document, **changes}).encode() + b"\n"


def test_records_come_back_as_they_were_written() -> None:
    written = [record("a"), record("b", reward=0.5, figures={"partial": 0.25})]
    assert read(*lines(written)) == written


@pytest.mark.parametrize("reward", [True, "1", 1.7, -0.1, -1])
def test_a_reward_that_is_no_number_from_0_to_1_is_refused(reward: object) -> None:
    with pytest.raises(RecordsError, match=r"attempts\.jsonl, line 2: reward: "):
        read(lines([record("a")])[0], changed(reward=reward))


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999"])
def test_a_reward_that_is_not_finite_is_refused(number: str) -> None:
    line = lines([record("a")])[0].replace(b'"reward":1.0', f'"reward":{number}'.encode())
    assert line != lines([record("a")])[0]
    with pytest.raises(RecordsError, match="line 1: reward: "):
        read(line)


def test_an_unknown_schema_version_says_which_code_to_use() -> None:
    with pytest.raises(RecordsError, match="line 1: schemaVersion is 7; this version of Assay reads 1"):
        read(changed(schemaVersion=7))


def test_a_file_that_was_cut_is_refused_with_the_line() -> None:
    whole = b"".join(lines([record("a"), record("b")]))
    for end in (len(whole) - 1, len(whole) - 20):
        with pytest.raises(RecordsError, match="line 2: the file ends in the middle of this line"):
            read(*whole[:end].splitlines(keepends=True))


def test_an_empty_file_is_refused() -> None:
    with pytest.raises(RecordsError, match="the file is empty"):
        read()


def test_what_is_not_json_is_refused() -> None:
    with pytest.raises(RecordsError, match="line 1: is not JSON"):
        read(b"reward: 1\n")


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(RecordsError, match="line 1: rewrad: unknown field"):
        read(changed(rewrad=1))


def test_a_missing_field_is_named() -> None:
    document = json.loads(lines([record("a")])[0])
    del document["task"]
    with pytest.raises(RecordsError, match="line 1: task: Field required"):
        read(json.dumps(document).encode() + b"\n")


@pytest.mark.parametrize("outcome", ["VerifierCrash", "Disrupted", "ProviderRateLimited", "Unrecognised"])
def test_a_try_without_a_result_cannot_be_retained(outcome: str) -> None:
    with pytest.raises(RecordsError, match=f"outcome is {outcome} and retained is true"):
        read(changed(outcome=outcome))


def test_a_graded_try_needs_its_reward() -> None:
    document = json.loads(lines([record("a")])[0])
    del document["reward"]
    with pytest.raises(RecordsError, match="outcome is Graded and reward is missing"):
        read(json.dumps(document).encode() + b"\n")
