"""Object storage: boto3, with typed errors and settings that suit AWS and any S3-compatible store.

`S3Store` is synchronous; `AsyncS3Store` runs it in threads of its own and adds streams in bounded memory.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import boto3
from botocore.config import Config
from pydantic import Field, SecretStr, model_validator

from assay.adapters.environment import EnvironmentSettings
from assay.adapters.s3_errors import (
    NoSuchBucket,
    NoSuchKey,
    ObjectExists,
    ObjectTooLarge,
    StorageDenied,
    StorageError,
    StorageRejected,
    StorageUnavailable,
    typed,
)
from assay.adapters.s3_upload import BeforePublish, StoredObject, StreamUpload

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

__all__ = [
    "AsyncS3Store",
    "NoSuchBucket",
    "NoSuchKey",
    "ObjectExists",
    "ObjectInfo",
    "ObjectStream",
    "ObjectTooLarge",
    "S3Settings",
    "S3Store",
    "StorageDenied",
    "StorageError",
    "StorageRejected",
    "StorageUnavailable",
    "StoredObject",
]

READ_BYTES = 256 * 1024

ChecksumMode = Literal["whenRequired", "whenSupported"]
Positive = Annotated[float, Field(gt=0, le=3600)]


class S3Settings(EnvironmentSettings):
    """How to reach the store. Without an endpoint it is AWS; without keys, the pod's own cloud identity."""

    endpoint: str | None = Field(
        default=None, alias="ASSAY_S3_ENDPOINT", pattern=r"^https?://[^/\s]+/?$", max_length=500
    )
    region: str = Field(
        default="us-east-1", alias="ASSAY_S3_REGION", pattern=r"^[A-Za-z0-9-]+$", max_length=64
    )
    path_style: bool = Field(default=False, alias="ASSAY_S3_PATH_STYLE")
    checksum_mode: ChecksumMode = Field(default="whenSupported", alias="ASSAY_S3_CHECKSUM_MODE")
    ca_bundle: str | None = Field(default=None, alias="ASSAY_S3_CA_BUNDLE")
    access_key_id: str | None = Field(default=None, alias="AWS_ACCESS_KEY_ID")
    secret_access_key: SecretStr | None = Field(default=None, alias="AWS_SECRET_ACCESS_KEY")
    session_token: SecretStr | None = Field(default=None, alias="AWS_SESSION_TOKEN")
    connect_timeout_seconds: Positive = Field(default=5, alias="ASSAY_S3_CONNECT_TIMEOUT_SECONDS")
    read_timeout_seconds: Positive = Field(default=60, alias="ASSAY_S3_READ_TIMEOUT_SECONDS")
    tries: Annotated[int, Field(ge=1, le=10)] = Field(default=3, alias="ASSAY_S3_TRIES")
    threads: Annotated[int, Field(ge=1, le=256)] = Field(default=16, alias="ASSAY_S3_THREADS")

    @model_validator(mode="before")
    @classmethod
    def _defaults_of_compatible_stores(cls, data: dict[str, Any]) -> dict[str, Any]:
        """Few other stores resolve `bucket.host` or take the checksum headers boto3 sends since 1.36."""
        if not (data.get("endpoint") or data.get("ASSAY_S3_ENDPOINT")):
            return data
        filled = dict(data)
        if "path_style" not in data:
            filled.setdefault("ASSAY_S3_PATH_STYLE", True)
        if "checksum_mode" not in data:
            filled.setdefault("ASSAY_S3_CHECKSUM_MODE", "whenRequired")
        return filled

    @model_validator(mode="after")
    def _key_and_secret_belong_together(self) -> Self:
        if (self.access_key_id is None) != (self.secret_access_key is None):
            raise ValueError("set both AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or neither")
        return self


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """An object as a listing shows it; `size` in bytes."""

    key: str
    size: int
    modified: datetime


class S3Store:
    """Synchronous object storage; safe to share among threads. Every method raises `StorageError`s."""

    def __init__(self, settings: S3Settings) -> None:
        self.settings = settings
        self.client = _client(settings)

    def check_bucket(self, bucket: str) -> None:
        """Return if these credentials reach the bucket; NoSuchBucket or StorageDenied if not."""
        # Not HeadBucket: its answer has no body, so an unknown access key looks like a missing bucket.
        with typed(bucket):
            self.client.list_objects_v2(Bucket=bucket, MaxKeys=1)

    def head(self, bucket: str, key: str) -> ObjectInfo:
        """Size and time of one object; NoSuchKey when absent."""
        try:
            with typed(bucket, key):
                answer = self.client.head_object(Bucket=bucket, Key=key)
        except StorageDenied:
            # An answer to HEAD has no body and so no reason; this call fails with one.
            self.check_bucket(bucket)
            raise
        return ObjectInfo(key, answer["ContentLength"], answer["LastModified"])

    def get_bytes(self, bucket: str, key: str, limit: int) -> bytes:
        """The whole object, at most `limit` bytes (ObjectTooLarge)."""
        with typed(bucket, key):
            answer = self.client.get_object(Bucket=bucket, Key=key)
            with answer["Body"] as body:
                if answer["ContentLength"] > limit:
                    size = answer["ContentLength"]
                    raise ObjectTooLarge(f"s3://{bucket}/{key} has {size} bytes; the limit here is {limit}")
                return body.read()

    def put_bytes(
        self,
        bucket: str,
        key: str,
        body: bytes,
        *,
        content_type: str = "application/octet-stream",
        only_if_absent: bool = False,
    ) -> StoredObject:
        """Store `body`. With `only_if_absent` an existing object raises ObjectExists and stays.

        Not every store honours the condition (cases.md G7), so nothing may depend on it alone.
        """
        condition: dict[str, Any] = {"IfNoneMatch": "*"} if only_if_absent else {}
        with typed(bucket, key):
            self.client.put_object(Bucket=bucket, Key=key, Body=body, ContentType=content_type, **condition)
        return StoredObject(key, len(body), f"sha256:{hashlib.sha256(body).hexdigest()}")

    def list_keys(self, bucket: str, prefix: str, after: str = "") -> Iterator[ObjectInfo]:
        """All objects below `prefix` in key order, those behind key `after` alone; one request a thousand."""
        start: dict[str, Any] = {"StartAfter": after} if after else {}
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix, **start)
        with typed(bucket):
            for page in pages:
                for entry in page.get("Contents", []):
                    yield ObjectInfo(entry["Key"], entry["Size"], entry["LastModified"])

    def close(self) -> None:
        """Close the connections."""
        self.client.close()


class ObjectStream:
    """An open object: its size in bytes, and its content as an async iterator of chunks."""

    def __init__(self, store: "AsyncS3Store", bucket: str, key: str, body: Any, size: int) -> None:
        self._store, self._bucket, self._key, self._body = store, bucket, key, body
        self.size = size

    async def chunks(self) -> AsyncIterator[bytes]:
        """Chunks of at most 256 KiB; StorageUnavailable if the store ends before `size` bytes."""
        while chunk := await self._store.run(self._read):
            yield chunk

    def _read(self) -> bytes:
        with typed(self._bucket, self._key):
            data: bytes = self._body.read(READ_BYTES)
            return data


class AsyncS3Store:
    """The same for asyncio, in a thread pool of its own, so that a slow store never stalls the loop."""

    def __init__(self, settings: S3Settings) -> None:
        self.sync = S3Store(settings)
        self._executor = ThreadPoolExecutor(settings.threads, thread_name_prefix="s3")
        self._aborting: set[asyncio.Task[None]] = set()

    async def run[T](self, function: Callable[..., T], *args: Any, **keywords: Any) -> T:
        """Call `function` in one of this store's threads."""
        call = partial(function, *args, **keywords)
        return await asyncio.get_running_loop().run_in_executor(self._executor, call)

    async def check_bucket(self, bucket: str) -> None:
        """As S3Store.check_bucket."""
        await self.run(self.sync.check_bucket, bucket)

    async def head(self, bucket: str, key: str) -> ObjectInfo:
        """As S3Store.head."""
        return await self.run(self.sync.head, bucket, key)

    async def get_bytes(self, bucket: str, key: str, limit: int) -> bytes:
        """As S3Store.get_bytes."""
        return await self.run(self.sync.get_bytes, bucket, key, limit)

    async def put_bytes(
        self,
        bucket: str,
        key: str,
        body: bytes,
        *,
        content_type: str = "application/octet-stream",
        only_if_absent: bool = False,
    ) -> StoredObject:
        """As S3Store.put_bytes."""
        return await self.run(
            self.sync.put_bytes, bucket, key, body, content_type=content_type, only_if_absent=only_if_absent
        )

    async def list_keys(self, bucket: str, prefix: str, after: str = "") -> list[ObjectInfo]:
        """As S3Store.list_keys, as a list."""
        return await self.run(lambda: list(self.sync.list_keys(bucket, prefix, after)))

    @asynccontextmanager
    async def stream_get(self, bucket: str, key: str) -> AsyncIterator[ObjectStream]:
        """Open an object for reading in chunks; NoSuchKey when absent."""
        answer = await self.run(self._open, bucket, key)
        try:
            yield ObjectStream(self, bucket, key, answer["Body"], answer["ContentLength"])
        finally:
            answer["Body"].close()

    def _open(self, bucket: str, key: str) -> Any:
        with typed(bucket, key):
            return self.sync.client.get_object(Bucket=bucket, Key=key)

    async def put_stream(
        self,
        bucket: str,
        key: str,
        chunks: AsyncIterator[bytes],
        *,
        content_type: str = "application/octet-stream",
        before_publish: BeforePublish | None = None,
    ) -> StoredObject:
        """Store a stream of unknown length in at most three parts' worth of memory.

        Whatever fails (the stream, the store, `before_publish`, cancellation): no object appears, an older
        one of that key stays, and a multipart upload is aborted.
        """
        upload = StreamUpload(self.run, self.sync.client, bucket, key, content_type, before_publish)
        try:
            return await upload.run(chunks)
        except BaseException:
            # A cancelled caller must not take the clean-up with it.
            task = asyncio.ensure_future(upload.abort())
            self._aborting.add(task)
            task.add_done_callback(self._aborting.discard)
            await asyncio.shield(task)
            raise

    async def close(self) -> None:
        """Finish pending clean-ups and end the threads."""
        await asyncio.gather(*self._aborting, return_exceptions=True)
        await asyncio.to_thread(self._executor.shutdown)
        self.sync.close()


def _client(settings: S3Settings) -> "S3Client":
    mode: Any = "when_supported" if settings.checksum_mode == "whenSupported" else "when_required"
    secret, token = settings.secret_access_key, settings.session_token
    # A session of its own: boto3's default one is not safe to create clients from in several threads.
    return boto3.session.Session().client(
        "s3",
        endpoint_url=settings.endpoint,
        region_name=settings.region,
        aws_access_key_id=settings.access_key_id,
        aws_secret_access_key=secret.get_secret_value() if secret else None,
        aws_session_token=token.get_secret_value() if token else None,
        verify=settings.ca_bundle,
        config=Config(
            signature_version="s3v4",
            s3={"addressing_style": "path" if settings.path_style else "auto"},
            request_checksum_calculation=mode,
            response_checksum_validation=mode,
            connect_timeout=settings.connect_timeout_seconds,
            read_timeout=settings.read_timeout_seconds,
            retries={"mode": "standard", "total_max_attempts": settings.tries},
            max_pool_connections=settings.threads,
            user_agent_extra="assay",
        ),
    )
