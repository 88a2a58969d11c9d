"""An object store in memory that is slow, loses answers and dies with its caller, as a seed decides."""

import asyncio
import random
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast

from assay.adapters.s3 import AsyncS3Store, NoSuchKey, ObjectInfo, StorageUnavailable
from assay.api.outcome import OutcomeClass
from assay.core.record import AttemptKey, TryRecord
from tests.operator_kit.builders import RUN_UID, later

NOW = datetime(2026, 11, 30, tzinfo=UTC)


@dataclass
class Objects:
    """What the store holds; every client of it sees the same."""

    content: dict[str, bytes] = field(default_factory=dict)
    chance: random.Random = field(default_factory=lambda: random.Random(0))


@dataclass
class MemoryStore:
    """One client. `trouble` is the share of calls that fail, before or after they had their effect."""

    objects: Objects
    trouble: float = 0.0

    def as_store(self) -> AsyncS3Store:
        return cast(AsyncS3Store, self)

    async def put_bytes(self, bucket: str, key: str, body: bytes, **_: Any) -> None:
        await self._pass()
        self.objects.content[key] = body
        await self._pass()

    async def get_bytes(self, bucket: str, key: str, limit: int) -> bytes:
        await self._pass()
        if key not in self.objects.content:
            raise NoSuchKey(key)
        return self.objects.content[key]

    async def head(self, bucket: str, key: str) -> ObjectInfo:
        return ObjectInfo(key, len(await self.get_bytes(bucket, key, 0)), NOW)

    async def list_keys(self, bucket: str, prefix: str, after: str = "") -> list[ObjectInfo]:
        await self._pass()
        keys = sorted(key for key in self.objects.content if key.startswith(prefix) and key > after)
        return [ObjectInfo(key, len(self.objects.content[key]), NOW) for key in keys]

    async def _pass(self) -> None:
        for _ in range(self.objects.chance.randrange(4)):
            await asyncio.sleep(0)
        if self.objects.chance.random() < self.trouble:
            raise StorageUnavailable("the answer was lost")


def record(number: int, try_number: int = 1, **changes: Any) -> TryRecord:
    """A record of a try of task `number`."""
    fields: dict[str, Any] = {
        "key": AttemptKey("ledger", f"task-{number}", "oracle", 0),
        "try_number": try_number,
        "job_name": f"task-{number}-r0-t{try_number}",
        "outcome": OutcomeClass.GRADED,
        "reason": "",
        "ended_at": later(number),
        "reward": 1.0,
    }
    return TryRecord(**fields | changes)


__all__ = ["NOW", "RUN_UID", "MemoryStore", "Objects", "record"]
