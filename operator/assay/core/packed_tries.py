"""Recorded tries in a tenth of their memory: an operator holds a hundred thousand of them for days.

What many tries have in common is kept once; the rest of a try is one small piece of bytes, unpacked whenever
somebody reads it.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import islice
from typing import Any

import msgspec

from assay.api.outcome import OutcomeClass
from assay.core.record import AttemptKey, TryRecord, TryTokens

_OUTCOMES = tuple(OutcomeClass)
_PLACES = {outcome: place for place, outcome in enumerate(_OUTCOMES)}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_SHA256 = "sha256:"

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple).decode


class PackedTries(Mapping[str, TryRecord]):
    """Tries by Job name, in the order in which they were added."""

    def __init__(self) -> None:
        self._packed: dict[str, bytes] = {}
        self._texts, self._pairs = _Shared[str](), _Shared[tuple[Any, ...]]()

    def add(self, record: TryRecord) -> None:
        """Add one more. What a Job has come to is never changed."""
        self._packed[record.job_name] = self._pack(record)

    def __getitem__(self, job_name: str) -> TryRecord:
        return self._unpack(job_name, self._packed[job_name])

    def __contains__(self, job_name: object) -> bool:
        return job_name in self._packed

    def __iter__(self) -> Iterator[str]:
        return iter(self._packed)

    def __len__(self) -> int:
        return len(self._packed)

    def _pack(self, record: TryRecord) -> bytes:
        key, tokens, text, pair = record.key, record.tokens, self._texts.place_of, self._pairs.place_of
        return _encode(
            (
                (text(key.ledger), text(key.task), text(key.variant), key.repetition),
                record.try_number,
                _PLACES[record.outcome],
                text(record.reason),
                (record.ended_at - _EPOCH) // _MICROSECOND,
                _pack_uid(record.pod_uid),
                record.reward,
                record.agent_timed_out,
                record.setup_seconds,
                record.agent_seconds,
                record.verifier_seconds,
                record.upload_seconds,
                record.total_seconds,
                (
                    tokens.input,
                    tokens.cache_read,
                    tokens.cache_write_5m,
                    tokens.cache_write_1h,
                    tokens.reasoning,
                    tokens.output,
                ),
                record.model_calls,
                text(record.harbor_version),
                text(record.harness_commit),
                _pack_digest(record.manifest_digest),
                pair(record.images),
                pair(record.flags),
                record.verifies,
                _pack_digest(record.artifacts_digest),
                None if record.graded_as is None else _PLACES[record.graded_as],
                None if record.cost_usd is None else str(record.cost_usd),
            )
        )

    def _unpack(self, job_name: str, packed: bytes) -> TryRecord:
        texts, pairs = self._texts.values, self._pairs.values
        (
            (ledger, task, variant, repetition),
            try_number,
            outcome,
            reason,
            ended_at,
            pod_uid,
            reward,
            agent_timed_out,
            setup_seconds,
            agent_seconds,
            verifier_seconds,
            upload_seconds,
            total_seconds,
            tokens,
            model_calls,
            harbor_version,
            harness_commit,
            manifest_digest,
            images,
            flags,
            verifies,
            artifacts_digest,
            graded_as,
            cost_usd,
        ) = _decode(packed)
        return TryRecord(
            AttemptKey(texts[ledger], texts[task], texts[variant], repetition),
            try_number,
            job_name,
            _OUTCOMES[outcome],
            texts[reason],
            _EPOCH + timedelta(microseconds=ended_at),
            _unpack_uid(pod_uid),
            reward,
            agent_timed_out,
            setup_seconds,
            agent_seconds,
            verifier_seconds,
            upload_seconds,
            total_seconds,
            tokens=TryTokens(*tokens),
            model_calls=model_calls,
            harbor_version=texts[harbor_version],
            harness_commit=texts[harness_commit],
            manifest_digest=_unpack_digest(manifest_digest),
            images=pairs[images],
            flags=pairs[flags],
            verifies=verifies,
            artifacts_digest=_unpack_digest(artifacts_digest),
            graded_as=None if graded_as is None else _OUTCOMES[graded_as],
            cost_usd=None if cost_usd is None else Decimal(cost_usd),
        )


def tries_since(recorded: Mapping[str, TryRecord], count: int) -> Iterator[TryRecord]:
    """The recorded tries but for the first `count`, which are not unpacked."""
    return (recorded[name] for name in islice(recorded, count, None))


class _Shared[T]:
    """Values that many tries have, each once."""

    def __init__(self) -> None:
        self.values: list[T] = []
        self._places: dict[T, int] = {}

    def place_of(self, value: T) -> int:
        place = self._places.setdefault(value, len(self.values))
        if place == len(self.values):
            self.values.append(value)
        return place


def _pack_uid(uid: str) -> bytes | str:
    try:
        packed = bytes.fromhex(uid.replace("-", ""))
    except ValueError:
        return uid
    return packed if _unpack_uid(packed) == uid else uid


def _unpack_uid(packed: bytes | str) -> str:
    if isinstance(packed, str):
        return packed
    text = packed.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def _pack_digest(digest: str) -> bytes | str:
    try:
        packed = bytes.fromhex(digest.removeprefix(_SHA256))
    except ValueError:
        return digest
    return packed if _unpack_digest(packed) == digest else digest


def _unpack_digest(packed: bytes | str) -> str:
    return packed if isinstance(packed, str) else _SHA256 + packed.hex()
