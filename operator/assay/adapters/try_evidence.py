"""Reads the evidence of one try, from S3 or from a folder, and checks every file against the manifest."""

import asyncio
import io
import json
import re
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from assay.adapters.s3 import AsyncS3Store, NoSuchBucket, NoSuchKey, ObjectTooLarge
from assay.api.evidence import EvidenceFile, Manifest
from assay.core.canonical import digest_of_bytes
from assay.core.manifest import MANIFEST_NAME, MAX_MANIFEST_BYTES, read_manifest
from assay.core.record import ManifestFound
from assay.core.report_html.attempt_page import TryFiles, wanted

MAX_SHOWN_BYTES = 64 << 20
"""A larger file is named and not read."""
MAX_ARCHIVE_BYTES = 1 << 30
_AT_ONCE = 16
_TRY_SPEC = "try-spec.json"
_INSTRUCTION = "instruction.md"
_ADDRESS = re.compile(r"s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])/(.+?)/?")


class EvidenceError(ValueError):
    """The evidence cannot be read; the message names the place and what to give instead."""


class TryPlace(Protocol):
    """Where a try's files lie."""

    @property
    def address(self) -> str:
        """How people name the place."""

    async def read(self, path: str, limit: int) -> bytes | None:
        """A file's bytes; None where there is none, or more than `limit` of them."""

    async def archive(self, digest: str, spec: dict[str, Any]) -> bytes | None:
        """The task's archive; None where it is not at hand. `spec` is the try spec, as far as it is known."""


class FolderPlace:
    """A try's evidence as files, e.g. a copy of its prefix."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def address(self) -> str:
        """The folder's path."""
        return f"{self._folder}/"

    async def read(self, path: str, limit: int) -> bytes | None:
        """The file. A link that leads out of the folder is not followed."""
        file = self._folder / path
        if not file.is_file() or not file.resolve().is_relative_to(self._folder.resolve()):
            return None
        if file.stat().st_size > limit:
            return None
        return await asyncio.to_thread(file.read_bytes)

    async def archive(self, digest: str, spec: dict[str, Any]) -> bytes | None:
        """The archive in a `tasks` folder beside or above, as it lies in a copy of a bucket."""
        name = f"{digest.replace(':', '-')}.tar"
        for parent in self._folder.resolve().parents:
            file = parent / "tasks" / name
            if file.is_file() and file.stat().st_size <= MAX_ARCHIVE_BYTES:
                return await asyncio.to_thread(file.read_bytes)
        return None


class S3Place:
    """A try's evidence below its prefix in S3."""

    def __init__(self, store: AsyncS3Store, address: str) -> None:
        """Raises EvidenceError for an address that is none."""
        found = _ADDRESS.fullmatch(address.removesuffix(MANIFEST_NAME))
        if found is None:
            raise EvidenceError(
                f"{address!r} is no address of a try: give s3://BUCKET/…/try-1/POD-UID/, as the report says"
            )
        self._store, self._bucket, self._prefix = store, found[1], f"{found[2]}/"

    @property
    def address(self) -> str:
        """`s3://bucket/prefix/`"""
        return f"s3://{self._bucket}/{self._prefix}"

    async def read(self, path: str, limit: int) -> bytes | None:
        """The object."""
        return await self._get(self._bucket, self._prefix + path, limit)

    async def archive(self, digest: str, spec: dict[str, Any]) -> bytes | None:
        """The archive where the try spec says that the runner got it from."""
        storage = spec.get("storage")
        storage = storage if isinstance(storage, dict) else {}
        prefix = str(storage.get("archivePrefix") or "tasks/")
        bucket = str(storage.get("archiveBucket") or self._bucket)
        return await self._get(bucket, f"{prefix}{digest.replace(':', '-')}.tar", MAX_ARCHIVE_BYTES)

    async def _get(self, bucket: str, key: str, limit: int) -> bytes | None:
        try:
            return await self._store.get_bytes(bucket, key, limit)
        except (NoSuchKey, NoSuchBucket, ObjectTooLarge):
            return None


async def read_try(place: TryPlace, expected_digest: str = "") -> TryFiles:
    """Everything of a try that its page shows. Raises EvidenceError, StorageError and OSError.

    A file that is not what the manifest lists is left out and named among the problems. `expected_digest` is
    the manifest's, where it is known from elsewhere.
    """
    content = await place.read(MANIFEST_NAME, MAX_MANIFEST_BYTES)
    if content is None:
        raise EvidenceError(f"{place.address} holds no {MANIFEST_NAME}: give the prefix of one try")
    found = read_manifest(content)
    if not isinstance(found, ManifestFound):
        raise EvidenceError(f"{place.address}{MANIFEST_NAME}: {found.reason}")
    manifest, problems = found.manifest, list[str]()
    if expected_digest and found.digest != expected_digest:
        problems.append(f"manifest.json has digest {found.digest}; recorded was {expected_digest}")
    files = [one for one in manifest.files if wanted(one)]
    checked = await _all_checked(place, files)
    problems += [problem for _, problem in checked if problem]
    contents = {
        one.path: content for one, (content, _) in zip(files, checked, strict=True) if content is not None
    }
    spec = await _try_spec(place, manifest)
    verified = spec.get("verifyOnly")
    number = verified.get("tryNumber") if isinstance(verified, dict) else None
    return TryFiles(
        manifest,
        found.digest,
        place.address,
        contents,
        problems,
        instruction_of(await place.archive(manifest.archive_digest, spec), manifest.archive_digest),
        number if isinstance(number, int) else None,
    )


async def _checked(place: TryPlace, file: EvidenceFile) -> tuple[bytes | None, str]:
    if file.size > MAX_SHOWN_BYTES:
        return None, f"{file.path} has {file.size:,} bytes and is not shown"
    content = await place.read(file.path, MAX_SHOWN_BYTES)
    if content is None:
        return None, f"{file.path} is listed by the manifest and is not there"
    if digest_of_bytes(content) != file.sha256:
        return None, f"{file.path} is not what the manifest lists: somebody changed it"
    return content, ""


async def _all_checked(place: TryPlace, files: Sequence[EvidenceFile]) -> list[tuple[bytes | None, str]]:
    free = asyncio.Semaphore(_AT_ONCE)

    async def one(file: EvidenceFile) -> tuple[bytes | None, str]:
        async with free:
            return await _checked(place, file)

    return list(await asyncio.gather(*map(one, files)))


async def _try_spec(place: TryPlace, manifest: Manifest) -> dict[str, Any]:
    listed = next((one for one in manifest.files if one.path == _TRY_SPEC), None)
    if listed is None:
        return {}
    content, _ = await _checked(place, listed)
    spec = json.loads(content) if content else {}
    return spec if isinstance(spec, dict) else {}


def instruction_of(archive: bytes | None, digest: str) -> str | None:
    """The instruction in a task's archive; None without one, or where the bytes have another digest."""
    if archive is None or digest_of_bytes(archive) != digest:
        return None
    try:
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            file = tar.extractfile(_INSTRUCTION)
            return file.read().decode(errors="replace") if file else None
    except (KeyError, tarfile.TarError):
        return None
