"""A stream of unknown length becomes an object: bounded memory, published only when it is complete."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from assay.adapters.s3_errors import StorageError, typed

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

PART_BYTES = 8 * 1024 * 1024
"""Above this size a stream becomes a multipart upload in parts of this size."""
LARGEST_OBJECT_BYTES = 10_000 * PART_BYTES
"""S3 allows 10,000 parts."""
HASHED_INLINE_BYTES = 64 * 1024
"""Hashing so much takes less time than asking a thread to do it."""


@dataclass(frozen=True, slots=True)
class StoredObject:
    """What a write stored: bytes counted and hashed on their way; `sha256` is `sha256:<hex>`."""

    key: str
    size: int
    sha256: str


BeforePublish = Callable[[StoredObject], Awaitable[None]]
"""Called when all bytes have been seen and before the object exists; raising keeps it from existing."""


class RunInThread(Protocol):
    """Calls a blocking function in a thread."""

    async def __call__[T](self, function: Callable[..., T], *args: Any, **keywords: Any) -> T: ...


class StreamUpload:
    """One stream on its way: a single put when it is small, else a multipart upload.

    One part travels while the next one fills, so at most two parts are in memory.
    """

    def __init__(
        self,
        run: RunInThread,
        client: "S3Client",
        bucket: str,
        key: str,
        content_type: str,
        before_publish: BeforePublish | None,
    ) -> None:
        self._run, self._client, self._bucket, self._key = run, client, bucket, key
        self._type, self._before_publish = content_type, before_publish
        self._hash = hashlib.sha256()
        self._size = 0
        self._creating: asyncio.Task[Any] | None = None
        self._flight: asyncio.Task[Any] | None = None
        self._parts: list[Any] = []

    async def run(self, chunks: AsyncIterator[bytes]) -> StoredObject:
        """Move all of `chunks`; the object exists when this returns, and not before."""
        buffer = bytearray()
        async for chunk in chunks:
            buffer += chunk
            if len(buffer) >= PART_BYTES:
                await self._send_part(buffer)
                buffer = bytearray()
        if self._creating is None:
            return await self._put_whole(buffer)
        if buffer:
            await self._send_part(buffer)
        await self._land()
        stored = await self._checked()
        await self._call(
            self._client.complete_multipart_upload,
            UploadId=await self._upload_id(),
            MultipartUpload={"Parts": self._parts},
        )
        return stored

    async def abort(self) -> None:
        """Leave nothing behind. A store that is away keeps the parts; its lifecycle rule removes them."""
        if self._creating is None:
            return
        with suppress(StorageError):
            await self._land()
        with suppress(StorageError):
            await self._call(self._client.abort_multipart_upload, UploadId=await self._upload_id())

    async def _put_whole(self, body: bytearray) -> StoredObject:
        await self._count(body)
        stored = await self._checked()
        await self._call(self._client.put_object, Body=body, ContentType=self._type)
        return stored

    async def _send_part(self, body: bytearray) -> None:
        if self._creating is None:
            self._creating = asyncio.create_task(
                self._call(self._client.create_multipart_upload, ContentType=self._type)
            )
        upload_id = await self._upload_id()
        await self._count(body)
        await self._land()
        number = len(self._parts) + 1
        self._flight = asyncio.create_task(
            self._call(self._client.upload_part, UploadId=upload_id, PartNumber=number, Body=body)
        )

    async def _upload_id(self) -> str:
        if self._creating is None:
            raise RuntimeError("no multipart upload was begun")
        # Shielded, as in _land: a thread cannot be cancelled, and abort() must know what it did.
        answer = await asyncio.shield(self._creating)
        return str(answer["UploadId"])

    async def _land(self) -> None:
        """Wait for the part that travels."""
        if self._flight is None:
            return
        answer = await asyncio.shield(self._flight)
        self._flight = None
        self._parts.append({"PartNumber": len(self._parts) + 1, "ETag": answer["ETag"]})

    async def _count(self, body: bytearray) -> None:
        self._size += len(body)
        if len(body) <= HASHED_INLINE_BYTES:
            self._hash.update(body)
        else:
            await self._run(self._hash.update, body)

    async def _checked(self) -> StoredObject:
        stored = StoredObject(self._key, self._size, f"sha256:{self._hash.hexdigest()}")
        if self._before_publish is not None:
            await self._before_publish(stored)
        return stored

    async def _call(self, method: Callable[..., Any], **keywords: Any) -> Any:
        def call() -> Any:
            with typed(self._bucket, self._key):
                return method(Bucket=self._bucket, Key=self._key, **keywords)

        return await self._run(call)
