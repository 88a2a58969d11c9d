"""Ledgers and task archives in object storage, under keys that are their digests.

A key is never written with other bytes, so publishing may be interrupted and repeated without harm; bytes
that somebody else put under a key are found out and replaced.
"""

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

from assay.adapters.s3 import AsyncS3Store, NoSuchKey, StoredObject
from assay.core.ledger import LedgerFile

ARCHIVE_PREFIX = "tasks/"
LEDGER_PREFIX = "ledgers/"
_CHUNK = 1 << 20
_PARALLEL = 4


class ArchiveMissingError(Exception):
    """A task archive of the ledger is not on disk, or its bytes are not what the ledger says."""


@dataclass(frozen=True, slots=True)
class Published:
    """What `publish_ledger` did. `key` is the ledger's, for `spec.source.s3.key`."""

    key: str
    uploaded: int
    already_there: int


def archive_name(digest: str) -> str:
    """File name of a task archive: `sha256-<hex>.tar`."""
    return f"{digest.replace(':', '-')}.tar"


def ledger_key(digest: str) -> str:
    """Key of a ledger file."""
    return f"{LEDGER_PREFIX}{digest.replace(':', '-')}.jsonl"


async def publish_ledger(
    store: AsyncS3Store,
    bucket: str,
    content: bytes,
    ledger: LedgerFile,
    archives: Path,
    on_archive: Callable[[], None] = lambda: None,
) -> Published:
    """Uploads the archives that the bucket lacks or has with other bytes and then, last, the ledger file.

    Raises ArchiveMissingError before anything is written where a file is missing, StorageErrors otherwise.
    """
    sizes = {task.archive_digest: task.archive_bytes for task in ledger.tasks}
    for digest, size in sizes.items():
        _check_on_disk(archives / archive_name(digest), size)
    gate = asyncio.Semaphore(_PARALLEL)

    async def one(digest: str, size: int) -> bool:
        async with gate:
            uploaded = await _put_archive(store, bucket, digest, size, archives / archive_name(digest))
            on_archive()
            return uploaded

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(digest, size)) for digest, size in sizes.items()]
    key = ledger_key(ledger.digest)
    await store.put_bytes(bucket, key, content, content_type="application/jsonl")
    uploaded = sum(task.result() for task in tasks)
    return Published(key, uploaded, len(tasks) - uploaded)


def _check_on_disk(path: Path, size: int) -> None:
    if not path.is_file():
        raise ArchiveMissingError(f"{path} is missing: build the ledger with --archives {path.parent}")
    if (found := path.stat().st_size) != size:
        raise ArchiveMissingError(f"{path} has {found} bytes, the ledger says {size}: build the ledger anew")


async def _put_archive(store: AsyncS3Store, bucket: str, digest: str, size: int, path: Path) -> bool:
    key = f"{ARCHIVE_PREFIX}{archive_name(digest)}"
    try:
        if (await store.head(bucket, key)).size == size and await stored_digest(store, bucket, key) == digest:
            return False
    except NoSuchKey:
        pass

    async def same(stored: StoredObject) -> None:
        if stored.sha256 != digest:
            raise ArchiveMissingError(f"{path} has digest {stored.sha256}, the ledger says {digest}")

    # A generator that is left half-way, because the store failed, must not keep its file open.
    async with aclosing(_chunks(path)) as chunks:
        await store.put_stream(bucket, key, chunks, content_type="application/x-tar", before_publish=same)
    return True


async def stored_digest(store: AsyncS3Store, bucket: str, key: str) -> str:
    """The digest of an object's bytes as they lie there now: what a size or a name says is not believed."""
    found = hashlib.sha256()
    async with store.stream_get(bucket, key) as stream:
        async for chunk in stream.chunks():
            found.update(chunk)
    return f"sha256:{found.hexdigest()}"


async def _chunks(path: Path) -> AsyncGenerator[bytes]:
    # Opened here, not in a thread: a cancelled wait for the thread would lose the open file.
    with path.open("rb") as file:
        while chunk := await asyncio.to_thread(file.read, _CHUNK):
            yield chunk
