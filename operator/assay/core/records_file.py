"""Reads `attempts.jsonl` as a stream: every line is checked, and none is dropped in silence."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from pydantic import ValidationError

from assay.api.attempt_record import AttemptRecord
from assay.core.record_structs import RecordNotPlain, as_struct, decode_record

MAX_LINE_BYTES = 32 << 20


class RecordsError(ValueError):
    """The records cannot be scored; the message names the file, the line, the field and the fix."""


class Place(NamedTuple):
    """Where a record stands."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}"


def read_records(lines: Iterable[bytes], file: str) -> Iterator[tuple[Place, AttemptRecord]]:
    """The records of a file, line by line with its newlines. Raises RecordsError at the first bad line."""
    for place, line in _places(lines, file):
        yield place, _record(line, place)


def read_structs(lines: Iterable[bytes], file: str) -> Iterator[tuple[Place, AttemptRecord]]:
    """As `read_records`, several times faster: structs (`record_structs`) that are read like records."""
    for place, line in _places(lines, file):
        try:
            struct = decode_record(line)
        except RecordNotPlain:
            struct = as_struct(_record(line, place))
        yield place, struct


def _places(lines: Iterable[bytes], file: str) -> Iterator[tuple[Place, bytes]]:
    number = 0
    for number, line in enumerate(lines, start=1):
        place = Place(file, number)
        if not line.endswith(b"\n"):
            raise RecordsError(
                f"{place}: the file ends in the middle of this line; copy the whole file again"
            )
        if len(line) > MAX_LINE_BYTES:
            raise RecordsError(f"{place}: the line has {len(line)} bytes; at most {MAX_LINE_BYTES} are read")
        yield place, line
    if number == 0:
        raise RecordsError(f"{file}: the file is empty; give the attempts.jsonl of a run or an import")


def _record(line: bytes, place: Place) -> AttemptRecord:
    try:
        return AttemptRecord.model_validate_json(line, strict=True)
    except ValidationError as error:
        raise RecordsError(f"{place}: {_words(error)}") from error


def _words(error: ValidationError) -> str:
    details = error.errors(include_url=False)
    version = next((one for one in details if one["loc"] == ("schemaVersion",)), None)
    if version is not None:
        return (
            f"schemaVersion is {version['input']!r}; this version of Assay reads 1: "
            "score the file with the Assay that wrote it"
        )
    first = details[0]
    field = ".".join(map(str, first["loc"]))
    given = f" (it is {str(first['input'])[:60]!r})" if field and first["type"] != "missing" else ""
    if first["type"] == "json_invalid":
        return f"is not JSON: {first['msg']}; copy the whole file again"
    if first["type"] == "extra_forbidden":
        return f"{field}: unknown field; docs/schemas/attempt-record.json lists what a record may hold"
    return f"{field}: {first['msg']}{given}; see docs/schemas/attempt-record.json" if field else first["msg"]
