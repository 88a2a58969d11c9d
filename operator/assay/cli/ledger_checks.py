"""The third party's checks of a ledger, each with its result in words."""

import asyncio
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from assay.adapters.ledger_store import ARCHIVE_PREFIX, archive_name, ledger_key, stored_digest
from assay.adapters.s3 import AsyncS3Store, NoSuchKey, S3Settings
from assay.cli.repository_gate import Gate
from assay.core.canonical import digest_of_bytes
from assay.core.clusters import ClusterInput, clusters
from assay.core.ledger import (
    MAX_LEDGER_BYTES,
    LedgerFile,
    LedgerFileError,
    normalised_repository,
    parse_ledger,
)

_CHUNK = 1 << 20
_PARALLEL = 4


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at, and whether it is as the ledger says."""

    name: str
    holds: bool
    words: str


def ledger_checks(content: bytes, digest: str | None) -> tuple[LedgerFile | None, list[Check]]:
    """The file alone: its form, its digest, its clusters."""
    observed = digest_of_bytes(content)
    checks = []
    if digest is not None:
        checks.append(
            Check("digest", observed == digest, f"the file has digest {observed}, expected {digest}")
        )
    try:
        ledger = parse_ledger(content)
    except LedgerFileError as error:
        return None, [*checks, Check("file", False, str(error))]
    checks.append(
        Check("file", True, f"canonical, {len(ledger.tasks)} task lines with right digests, {observed}")
    )
    checks.append(_clusters(ledger))
    return ledger, checks


def _clusters(ledger: LedgerFile) -> Check:
    """The clusters by their rules, from what the lines hold."""
    found = clusters(
        [
            ClusterInput(
                task.id,
                normalised_repository(task.repository) if task.repository else None,
                task.base_commit,
                task.failing_assertions,
            )
            for task in ledger.tasks
        ]
    )
    wrong = [task.id for task in ledger.tasks if found[task.id].name != task.cluster]
    words = (
        f"{ledger.clusters} by the rules" if not wrong else f"by the rules {wrong[0]} is in another cluster"
    )
    return Check("clusters", not wrong, words)


def repository_checks(gate: Gate, commit: str) -> tuple[bytes | None, list[Check]]:
    """A repository at a commit: its ledger's bytes, and whether pin, harness and tasks are what it says."""
    judged = gate.repository.commit(commit)
    ledger, findings = gate.commit_findings(judged)
    content = gate.repository.read(judged, gate.path)
    checks = [Check(one.check, False, f"{one.problem} ({one.fix})") for one in findings]
    if ledger is not None and not findings:
        harness = ledger.header.harness
        tree = harness.tree if harness else ""
        checks.append(Check("pin", True, f"at {judged[:12]} the pin is the ledger's digest {ledger.digest}"))
        checks.append(Check("harness", True, f"at {judged[:12]} the harness tree is the header's {tree}"))
    return content, checks


async def archive_checks(
    ledger: LedgerFile,
    content: bytes,
    settings: S3Settings | None,
    bucket: str | None,
    archives: Path | None,
    on_task: Callable[[], None],
) -> list[Check]:
    """The copy in S3, and every archive there and in a folder, read to the last byte."""
    checks: list[Check] = []
    digests = sorted({task.archive_digest for task in ledger.tasks})
    if archives is not None:
        wrong = [name for digest in digests if (name := await asyncio.to_thread(_on_disk, archives, digest))]
        checks.append(_archives(f"{archives}", digests, wrong))
    if settings is None or bucket is None:
        return checks
    store = AsyncS3Store(settings)
    try:
        checks.append(await _ledger_in_s3(store, bucket, ledger, content))
        gate = asyncio.Semaphore(_PARALLEL)

        async def one(digest: str) -> str | None:
            async with gate:
                found = await _in_s3(store, bucket, digest)
                on_task()
                return found

        found = await asyncio.gather(*(one(digest) for digest in digests))
        checks.append(_archives(f"s3://{bucket}/{ARCHIVE_PREFIX}", digests, [name for name in found if name]))
    finally:
        await store.close()
    return checks


def _archives(place: str, digests: list[str], wrong: list[str]) -> Check:
    words = (
        f"{len(digests)} in {place} have their digests" if not wrong else f"{place}: " + "; ".join(wrong[:5])
    )
    return Check("archives", not wrong, words)


def _on_disk(folder: Path, digest: str) -> str | None:
    path = folder / archive_name(digest)
    if not path.is_file():
        return f"{path.name} is missing"
    with path.open("rb") as content:
        observed = f"sha256:{hashlib.file_digest(content, 'sha256').hexdigest()}"
    return None if observed == digest else f"{path.name} has digest {observed}"


async def _ledger_in_s3(store: AsyncS3Store, bucket: str, ledger: LedgerFile, content: bytes) -> Check:
    key = ledger_key(ledger.digest)
    try:
        same = await store.get_bytes(bucket, key, MAX_LEDGER_BYTES) == content
    except NoSuchKey:
        return Check("copy", False, f"s3://{bucket}/{key} does not exist")
    return Check("copy", same, f"s3://{bucket}/{key} {'has' if same else 'does not have'} the file's bytes")


async def _in_s3(store: AsyncS3Store, bucket: str, digest: str) -> str | None:
    key = f"{ARCHIVE_PREFIX}{archive_name(digest)}"
    try:
        observed = await stored_digest(store, bucket, key)
    except NoSuchKey:
        return f"{key} does not exist"
    return None if observed == digest else f"{key} has digest {observed}"
