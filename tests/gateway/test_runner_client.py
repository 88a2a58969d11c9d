"""The runner's own client against the gateway: the two parts agree on more than a document."""

import hashlib
import io
import tarfile
from pathlib import Path

import pytest

from assay.adapters.s3 import S3Store
from assay.api.tryspec import TrySpec
from assay.core.names import archive_key, try_prefix
from assay.runner.gateway_client import Deadline, DigestMismatch, GatewayClient, GatewayRefused
from tests.fixtures.s3 import S3Server
from tests.gateway.conftest import StartGateway
from tests.gateway.harness import AttemptPod, Evals, GatewayProcess
from tests.gateway.test_evidence import encoded, manifest, sha256

pytestmark = pytest.mark.api

MIB = 1 << 20


def archive() -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("instruction.md"))
    return made.getvalue()


async def test_a_whole_try(
    gateway: GatewayProcess, evals: Evals, spec: TrySpec, store: S3Store, bucket: str, tmp_path: Path
) -> None:
    tar = archive()
    task = spec.task.model_copy(update={"archive_digest": sha256(tar)})
    spec = spec.model_copy(update={"task": task})
    pod = evals.attempt(spec)
    store.put_bytes(bucket, archive_key(spec.storage, sha256(tar)), tar)
    token = tmp_path / "token"
    token.write_text(pod.token())
    log = b"line\n" * 4 * MIB
    async with GatewayClient(gateway.url, token) as client:
        await client.fetch_archive(sha256(tar), tmp_path / "task.tar", Deadline(60))
        assert (tmp_path / "task.tar").read_bytes() == tar
        pieces = [log[start : start + MIB] for start in range(0, len(log), MIB)]
        file = await client.put_evidence(
            "runner.log", lambda: iter(pieces), len(log), sha256(log), Deadline(60)
        )
        body = encoded(manifest(spec, pod, [file.model_dump()]))
        assert await client.put_manifest(body, Deadline(60)) == sha256(body)
    stored = store.get_bytes(
        bucket, try_prefix(spec.storage, spec.identity, pod.uid) + "runner.log", 64 * MIB
    )
    assert hashlib.sha256(stored).digest() == hashlib.sha256(log).digest()


async def test_what_can_never_work_ends_at_once(
    gateway: GatewayProcess, pod: AttemptPod, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text(pod.token())
    async with GatewayClient(gateway.url, token) as client:
        with pytest.raises(GatewayRefused, match="Forbidden"):
            await client.fetch_archive("sha256:" + "0" * 64, tmp_path / "task.tar", Deadline(60))
        with pytest.raises((GatewayRefused, DigestMismatch), match="DigestMismatch"):
            await client.put_evidence("f", lambda: iter([b"x"]), 1, sha256(b"y"), Deadline(60))


async def test_an_upload_waits_for_the_store(
    start_gateway: StartGateway, mortal_s3: S3Server, pod: AttemptPod, bucket: str, tmp_path: Path
) -> None:
    """S3 is away when the upload begins; the client's own patience is all that is needed."""
    token = tmp_path / "token"
    token.write_text(pod.token())
    mortal_s3.stop()
    gateway = start_gateway(**mortal_s3.environment)
    tried = 0

    def pieces() -> list[bytes]:
        nonlocal tried
        tried += 1
        if tried == 2:
            mortal_s3.start()
            mortal_s3.store.client.create_bucket(Bucket=bucket)
        return [b"x"]

    async with GatewayClient(gateway.url, token) as client:
        file = await client.put_evidence("f", lambda: iter(pieces()), 1, sha256(b"x"), Deadline(120))
    assert file.size == 1
    assert tried >= 2
