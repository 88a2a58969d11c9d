"""How the runs on a ledger ended, in S3 beside the list of those that began."""

import asyncio
import hashlib
import logging
from collections.abc import Iterable
from itertools import batched
from typing import IO

from pydantic import ValidationError

from assay.adapters.journal_store import MAX_INDEX_BYTES, list_ledger_runs
from assay.adapters.s3 import AsyncS3Store
from assay.api.ledger_history import LedgerResult, ResultFile
from assay.core.canonical import canonical_json
from assay.core.ledger_history import LedgerHistory
from assay.core.names import ledger_results_prefix

log = logging.getLogger(__name__)

READ_AT_ONCE = 16


class ResultFileChangedError(ValueError):
    """A file of an ended run is no longer what its entry names."""


async def add_ledger_results(store: AsyncS3Store, bucket: str, results: Iterable[LedgerResult]) -> None:
    """Put the results beside the lists of their ledgers. The same result again changes nothing."""
    for one in results:
        key = f"{ledger_results_prefix(one.ledger_digest)}{one.run_uid}-r{one.revision}.json"
        await store.put_bytes(bucket, key, canonical_json(one), content_type="application/json")


async def read_ledger_history(store: AsyncS3Store, bucket: str, ledger_digest: str) -> LedgerHistory:
    """The list of a ledger. What cannot be read is logged and left out. Raises StorageError."""
    runs = await list_ledger_runs(store, bucket, ledger_digest)
    keys = [info.key for info in await store.list_keys(bucket, ledger_results_prefix(ledger_digest))]
    results = []
    for some in batched(keys, READ_AT_ONCE, strict=False):
        contents = await asyncio.gather(*(store.get_bytes(bucket, key, MAX_INDEX_BYTES) for key in some))
        for key, content in zip(some, contents, strict=True):
            try:
                results.append(LedgerResult.read_leniently(content, strict=True))
            except ValidationError as error:
                log.warning("s3://%s/%s is no result of a run: %s", bucket, key, error)
    return LedgerHistory(runs, results)


async def fetch_result_file(store: AsyncS3Store, bucket: str, named: ResultFile, into: IO[bytes]) -> None:
    """Copy a file of an ended run. Raises StorageError, and ResultFileChangedError for other bytes."""
    found = hashlib.sha256()
    async with store.stream_get(bucket, named.key) as stream:
        async for chunk in stream.chunks():
            found.update(chunk)
            await asyncio.to_thread(into.write, chunk)
    digest = f"sha256:{found.hexdigest()}"
    if digest != named.digest:
        raise ResultFileChangedError(
            f"s3://{bucket}/{named.key} has digest {digest}, the ledger's list names {named.digest}"
        )
    into.seek(0)
