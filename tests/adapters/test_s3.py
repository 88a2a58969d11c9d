"""Object storage against a real S3 server: what its users, and readers of its errors, notice."""

import asyncio
import hashlib
import tracemalloc
from collections.abc import AsyncIterator

import pytest
from pydantic import SecretStr

from assay.adapters.environment import BadSettings
from assay.adapters.s3 import (
    AsyncS3Store,
    NoSuchBucket,
    NoSuchKey,
    ObjectExists,
    ObjectTooLarge,
    S3Settings,
    S3Store,
    StorageDenied,
    StorageUnavailable,
    StoredObject,
)
from tests.fixtures.s3 import S3Server, bucket, free_port, mortal_s3, new_bucket, s3_server

__all__ = ["bucket", "mortal_s3", "s3_server"]

MIB = 1 << 20


@pytest.fixture
def store(s3_server: S3Server) -> S3Store:
    return s3_server.store


@pytest.fixture
async def streams(s3_server: S3Server) -> AsyncIterator[AsyncS3Store]:
    opened = AsyncS3Store(s3_server.settings)
    yield opened
    await opened.close()


async def pieces(total: int, size: int = 64 * 1024) -> AsyncIterator[bytes]:
    for start in range(0, total, size):
        yield bytes([start // size % 251]) * min(size, total - start)


async def digest_of(total: int) -> str:
    digest = hashlib.sha256()
    async for piece in pieces(total):
        digest.update(piece)
    return f"sha256:{digest.hexdigest()}"


def pending_uploads(store: S3Store, bucket: str) -> int:
    return len(store.client.list_multipart_uploads(Bucket=bucket).get("Uploads", []))


class TestObjects:
    def test_bytes_come_back(self, store: S3Store, bucket: str) -> None:
        stored = store.put_bytes(bucket, "a/b c/ü.txt", b"\x00hello")
        assert stored == StoredObject("a/b c/ü.txt", 6, f"sha256:{hashlib.sha256(b'\x00hello').hexdigest()}")
        assert store.get_bytes(bucket, "a/b c/ü.txt", limit=6) == b"\x00hello"
        assert store.head(bucket, "a/b c/ü.txt").size == 6

    def test_an_object_above_the_limit_is_not_read(self, store: S3Store, bucket: str) -> None:
        store.put_bytes(bucket, "big", b"12345")
        with pytest.raises(ObjectTooLarge, match="5 bytes"):
            store.get_bytes(bucket, "big", limit=4)

    def test_a_conditional_write_keeps_the_first_object(self, store: S3Store, bucket: str) -> None:
        store.put_bytes(bucket, "once", b"first", only_if_absent=True)
        with pytest.raises(ObjectExists):
            store.put_bytes(bucket, "once", b"second", only_if_absent=True)
        assert store.get_bytes(bucket, "once", limit=10) == b"first"

    def test_a_listing_of_more_than_one_page_is_complete(self, store: S3Store, bucket: str) -> None:
        for number in range(1010):
            store.put_bytes(bucket, f"many/{number:04}", b"")
        store.put_bytes(bucket, "other", b"")
        listed = [info.key for info in store.list_keys(bucket, "many/")]
        assert listed == [f"many/{number:04}" for number in range(1010)]

    def test_the_bucket_is_part_of_the_path(self, s3_server: S3Server, store: S3Store, bucket: str) -> None:
        """No wildcard DNS is needed (cases.md G2)."""
        url = store.client.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "k"})
        assert url.startswith(f"{s3_server.endpoint}/{bucket}/k?")


class TestStreams:
    @pytest.mark.parametrize("size", [0, 1, 8 * MIB - 1, 8 * MIB, 8 * MIB + 1, 25 * MIB])
    async def test_any_size_comes_back(self, streams: AsyncS3Store, bucket: str, size: int) -> None:
        stored = await streams.put_stream(bucket, "s", pieces(size))
        assert stored == StoredObject("s", size, await digest_of(size))
        digest = hashlib.sha256()
        async with streams.stream_get(bucket, "s") as opened:
            assert opened.size == size
            async for chunk in opened.chunks():
                digest.update(chunk)
        assert f"sha256:{digest.hexdigest()}" == stored.sha256

    async def test_memory_stays_bounded(self, streams: AsyncS3Store, bucket: str) -> None:
        await streams.put_stream(bucket, "warm", pieces(9 * MIB))
        tracemalloc.start()
        await streams.put_stream(bucket, "s", pieces(128 * MIB))
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 32 * MIB

    @pytest.mark.parametrize("size", [10, 20 * MIB])
    async def test_nothing_is_kept_when_the_check_refuses(
        self, streams: AsyncS3Store, bucket: str, size: int
    ) -> None:
        await streams.put_bytes(bucket, "s", b"older")

        async def refuse(stored: StoredObject) -> None:
            raise ValueError(f"{stored.size} bytes are not what was announced")

        with pytest.raises(ValueError, match=f"{size} bytes"):
            await streams.put_stream(bucket, "s", pieces(size), before_publish=refuse)
        assert await streams.get_bytes(bucket, "s", limit=10) == b"older"
        assert pending_uploads(streams.sync, bucket) == 0

    async def test_nothing_is_kept_when_the_stream_breaks(self, streams: AsyncS3Store, bucket: str) -> None:
        async def broken() -> AsyncIterator[bytes]:
            async for piece in pieces(17 * MIB):
                yield piece
            raise ConnectionResetError("the client went away")

        with pytest.raises(ConnectionResetError):
            await streams.put_stream(bucket, "s", broken())
        with pytest.raises(NoSuchKey):
            await streams.head(bucket, "s")
        assert pending_uploads(streams.sync, bucket) == 0

    async def test_nothing_is_kept_when_the_caller_is_cancelled(
        self, streams: AsyncS3Store, bucket: str
    ) -> None:
        reached, never = asyncio.Event(), asyncio.Event()

        async def endless() -> AsyncIterator[bytes]:
            async for piece in pieces(17 * MIB):
                yield piece
            reached.set()
            await never.wait()

        task = asyncio.create_task(streams.put_stream(bucket, "s", endless()))
        await reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(NoSuchKey):
            await streams.head(bucket, "s")
        assert pending_uploads(streams.sync, bucket) == 0


class TestErrors:
    def test_missing_key(self, store: S3Store, bucket: str) -> None:
        with pytest.raises(NoSuchKey, match=f"s3://{bucket}/nothing"):
            store.get_bytes(bucket, "nothing", limit=1)
        with pytest.raises(NoSuchKey):
            store.head(bucket, "nothing")

    def test_missing_bucket_is_named(self, store: S3Store) -> None:
        with pytest.raises(NoSuchBucket, match="no-such-bucket-here does not exist"):
            store.check_bucket("no-such-bucket-here")
        with pytest.raises(NoSuchBucket):
            store.put_bytes("no-such-bucket-here", "k", b"")
        with pytest.raises(NoSuchBucket):
            list(store.list_keys("no-such-bucket-here", ""))

    @pytest.mark.parametrize(
        ("change", "setting"),
        [
            ({"access_key_id": "unknown"}, "AWS_ACCESS_KEY_ID"),
            ({"secret_access_key": SecretStr("wrong")}, "AWS_SECRET_ACCESS_KEY"),
        ],
    )
    def test_wrong_credentials_name_the_setting(
        self, s3_server: S3Server, bucket: str, change: dict[str, object], setting: str
    ) -> None:
        store = S3Store(s3_server.settings.model_copy(update=change))
        with pytest.raises(StorageDenied, match=setting):
            store.put_bytes(bucket, "k", b"")
        with pytest.raises(StorageDenied, match=setting):
            store.check_bucket(bucket)
        store.close()

    def test_no_server(self) -> None:
        settings = S3Settings(
            endpoint=f"http://127.0.0.1:{free_port()}",
            access_key_id="a",
            secret_access_key=SecretStr("b"),
            tries=1,
        )
        store = S3Store(settings)
        with pytest.raises(StorageUnavailable, match="Could not connect"):
            store.put_bytes("bucket", "k", b"")
        store.close()

    async def test_a_server_that_dies_in_the_middle(self, mortal_s3: S3Server) -> None:
        """The failed stream leaves no object; the same call succeeds once the server is back."""
        store = AsyncS3Store(mortal_s3.settings.model_copy(update={"tries": 1}))
        bucket = new_bucket(mortal_s3)

        async def deadly() -> AsyncIterator[bytes]:
            async for piece in pieces(9 * MIB):
                yield piece
            mortal_s3.stop()
            async for piece in pieces(9 * MIB):
                yield piece

        with pytest.raises(StorageUnavailable):
            await store.put_stream(bucket, "s", deadly())
        mortal_s3.start()
        with pytest.raises(NoSuchKey):
            await store.head(bucket, "s")
        assert (await store.put_stream(bucket, "s", pieces(9 * MIB))).size == 9 * MIB
        await store.close()


class TestSettings:
    def test_defaults_of_a_custom_endpoint(self) -> None:
        """Path style, a region and no checksum headers, as most compatible stores want (cases.md G1–G3)."""
        settings = S3Settings.from_env({"ASSAY_S3_ENDPOINT": "https://minio.example:9000"})
        assert (settings.path_style, settings.region, settings.checksum_mode) == (
            True,
            "us-east-1",
            "whenRequired",
        )

    def test_defaults_of_aws(self) -> None:
        settings = S3Settings.from_env({"ASSAY_S3_REGION": "eu-central-1"})
        assert (settings.path_style, settings.checksum_mode) == (False, "whenSupported")

    def test_explicit_values_win_and_empty_ones_are_absent(self) -> None:
        settings = S3Settings.from_env(
            {
                "ASSAY_S3_ENDPOINT": "https://minio.example:9000",
                "ASSAY_S3_PATH_STYLE": "false",
                "ASSAY_S3_CHECKSUM_MODE": "whenSupported",
                "ASSAY_S3_REGION": "",
            }
        )
        assert (settings.path_style, settings.region, settings.checksum_mode) == (
            False,
            "us-east-1",
            "whenSupported",
        )

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("ASSAY_S3_ENDPOINT", "minio:9000"),
            ("ASSAY_S3_PATH_STYLE", "maybe"),
            ("ASSAY_S3_CHECKSUM_MODE", "never"),
            ("ASSAY_S3_TRIES", "0"),
        ],
    )
    def test_a_bad_value_names_its_variable(self, name: str, value: str) -> None:
        with pytest.raises(BadSettings, match=name):
            S3Settings.from_env({name: value})

    def test_half_a_key_pair_is_refused_without_showing_it(self) -> None:
        with pytest.raises(BadSettings, match="AWS_SECRET_ACCESS_KEY") as caught:
            S3Settings.from_env({"AWS_SECRET_ACCESS_KEY": "hunter2"})
        assert "hunter2" not in str(caught.value)

    def test_settings_do_not_show_the_secret(self, s3_server: S3Server) -> None:
        assert "test-secret" not in repr(s3_server.settings)


class TestHeaders:
    """The server's own log is not enough here: this looks at what leaves the client."""

    @pytest.mark.parametrize(("mode", "sent"), [("whenRequired", False), ("whenSupported", True)])
    def test_checksum_headers_only_where_wanted(
        self, s3_server: S3Server, bucket: str, mode: str, sent: bool
    ) -> None:
        store = S3Store(s3_server.settings.model_copy(update={"checksum_mode": mode}))
        seen: list[set[str]] = []
        store.client.meta.events.register(
            "before-send.s3.PutObject",
            lambda request, **_: seen.append({name.lower() for name in request.headers}),
        )
        store.put_bytes(bucket, "k", b"body")
        store.close()
        assert any(name.startswith("x-amz-checksum") for name in seen[0]) is sent
