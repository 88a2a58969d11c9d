"""Reads from a run's evidence in S3 when its ledger was frozen, recorded, and first used for a model call."""

import re
from collections.abc import Iterator
from datetime import datetime

from pydantic import ValidationError

from assay.adapters.s3 import S3Store
from assay.api.attempt_record import RunRecord
from assay.api.evidence import CallRecord
from assay.cli.ledger_checks import Check
from assay.cli.output import InputError, explained
from assay.core.freeze_order import FreezeTimes, freeze_problems
from assay.core.segments import MAX_SEGMENT_BYTES, SEGMENTS, Segment, SegmentName, decode_segment

_FIRST_CALLS = re.compile(r"/calls/000001\.jsonl$")
_RUN_RECORD = re.compile(r"/report/(\d+)/run\.json$")
_MAX_BYTES = 512 << 20


def freeze_check(store: S3Store, bucket: str, prefix: str, digest: str) -> Check:
    """Whether the run below `prefix` shows that the ledger was frozen before its first model call.

    Raises InputError where the run's record is missing or is none, JournalError for a damaged journal.
    """
    prefix = prefix.rstrip("/") + "/"
    run = _run_record(store, bucket, prefix)
    facts = next((one for one in run.ledgers if one.digest == digest), None)
    if facts is None:
        used = ", ".join(one.digest for one in run.ledgers)
        return Check("freeze", False, f"run {run.name} used {used}, not {digest}")
    first = _first_segment(store, bucket, prefix, run.uid)
    opening = first.header.opening if first else None
    recorded = (
        next((one.digest for one in opening.ledgers if one.name == facts.name), None) if opening else None
    )
    times = FreezeTimes(
        frozen_at=facts.frozen_at,
        recorded_at=first.header.written_at if first else None,
        recorded_digest=recorded,
        first_call_at=min(_first_calls(store, bucket, prefix), default=None),
    )
    problems = freeze_problems(digest, times)
    called = times.first_call_at.isoformat() if times.first_call_at else "never"
    words = (
        f"frozen {_shown(times.frozen_at)}, recorded {_shown(times.recorded_at)}, first model call {called}"
    )
    return Check("freeze", not problems, "; ".join([words, *problems]))


def _shown(time: datetime | None) -> str:
    return time.isoformat() if time else "unknown"


def _run_record(store: S3Store, bucket: str, prefix: str) -> RunRecord:
    """The run's record; of a run that was gone on with, that of its last report."""
    keys = {
        int(found[1]): info.key
        for info in store.list_keys(bucket, f"{prefix}report/")
        if (found := _RUN_RECORD.search(info.key))
    }
    if not keys:
        raise InputError(
            f"s3://{bucket}/{prefix}report/ holds no run.json: name the prefix of a run that has ended"
        )
    key = keys[max(keys)]
    try:
        return RunRecord.model_validate_json(store.get_bytes(bucket, key, _MAX_BYTES))
    except ValidationError as error:
        raise InputError(explained(f"s3://{bucket}/{key}", error)) from error


def _first_segment(store: S3Store, bucket: str, prefix: str, run_uid: str) -> Segment | None:
    """The journal's first segment; of several processes' the one that was written first."""
    below = f"{prefix}journal/{SEGMENTS}"
    found = []
    for info in store.list_keys(bucket, f"{below}0/00000001-"):
        name = SegmentName.parse(info.key.removeprefix(below))
        if name is not None:
            content = store.get_bytes(bucket, info.key, MAX_SEGMENT_BYTES)
            found.append(decode_segment(content, name, run_uid))
    return min(found, key=lambda one: one.header.written_at, default=None)


def _first_calls(store: S3Store, bucket: str, prefix: str) -> Iterator[datetime]:
    """When the first call of each try began."""
    for info in store.list_keys(bucket, prefix):
        if _FIRST_CALLS.search(info.key):
            line = store.get_bytes(bucket, info.key, _MAX_BYTES).partition(b"\n")[0]
            try:
                yield CallRecord.read_leniently(line).started_at
            except ValidationError as error:
                raise InputError(explained(f"s3://{bucket}/{info.key}", error)) from error
