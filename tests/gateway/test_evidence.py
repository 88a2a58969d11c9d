"""Evidence and its manifest, put as a runner puts them."""

import asyncio
import gzip
import hashlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from assay.adapters.s3 import S3Store
from assay.api.evidence import Manifest
from assay.api.tryspec import TrySpec
from assay.core.names import try_prefix
from tests.gateway.conftest import keys
from tests.gateway.harness import AttemptPod, Evals, GatewayProcess, Runner

pytestmark = pytest.mark.api

MIB = 1 << 20


def sha256(body: bytes) -> str:
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


def prefix_of(spec: TrySpec, pod: AttemptPod) -> str:
    return try_prefix(spec.storage, spec.identity, pod.uid)


def manifest(spec: TrySpec, pod: AttemptPod, files: list[Any]) -> dict[str, Any]:
    """A manifest of this try, as the runner writes it."""
    return {
        "schemaVersion": 1,
        "identity": spec.identity.model_dump(),
        "podUid": pod.uid,
        "ledgerDigest": spec.ledger_digest,
        "variantFingerprint": spec.variant_fingerprint,
        "archiveDigest": spec.task.archive_digest,
        "files": files,
        "result": {
            "outcome": "Graded",
            "reward": 1.0,
            "startedAt": "2026-01-01T00:00:00Z",
            "finishedAt": "2026-01-01T00:00:01Z",
            "harness": {"harbor": "0.26.0", "assay": "0.1.0"},
        },
    }


def encoded(document: dict[str, Any]) -> bytes:
    return Manifest.model_validate(document).model_dump_json().encode()


class TestUpload:
    @pytest.mark.parametrize("size", [0, 1000, 20 * MIB])
    async def test_the_file_lies_under_the_trys_prefix(
        self, runner: Runner, spec: TrySpec, pod: AttemptPod, store: S3Store, bucket: str, size: int
    ) -> None:
        body = (bytes(range(251)) * (size // 251 + 1))[:size]
        answer = await runner.upload("trial/agent/a log.txt", body, {"Content-Digest-Sha256": sha256(body)})
        assert answer.status == 200
        assert answer.json == {"path": "trial/agent/a log.txt", "size": size, "sha256": sha256(body)}
        assert store.get_bytes(bucket, prefix_of(spec, pod) + "trial/agent/a log.txt", 32 * MIB) == body

    async def test_a_stream_of_unknown_length(self, runner: Runner, store: S3Store, bucket: str) -> None:
        async def chunks() -> AsyncIterator[bytes]:
            for number in range(200):
                yield b"%6d" % number * 16384

        answer = await runner.upload("calls/000001.jsonl", chunks())
        assert answer.json["size"] == 200 * 6 * 16384
        assert [info.size for info in store.list_keys(bucket, "")] == [200 * 6 * 16384]

    async def test_a_compressed_file_stays_compressed(
        self, runner: Runner, spec: TrySpec, pod: AttemptPod, store: S3Store, bucket: str
    ) -> None:
        body = gzip.compress(b"log " * 1000)
        answer = await runner.upload("calls.gz", body, {"Content-Encoding": "gzip"})
        assert answer.json["sha256"] == sha256(body)
        assert store.get_bytes(bucket, prefix_of(spec, pod) + "calls.gz", MIB) == body

    async def test_a_repeated_upload_replaces_the_file(
        self, runner: Runner, spec: TrySpec, pod: AttemptPod, store: S3Store, bucket: str
    ) -> None:
        await runner.upload("runner.log", b"first")
        await runner.upload("runner.log", b"second")
        assert store.get_bytes(bucket, prefix_of(spec, pod) + "runner.log", 10) == b"second"

    @pytest.mark.parametrize("size", [100, 20 * MIB])
    async def test_another_digest_keeps_nothing(
        self, runner: Runner, store: S3Store, bucket: str, size: int
    ) -> None:
        answer = await runner.upload("f", b"x" * size, {"Content-Digest-Sha256": sha256(b"y")})
        assert (answer.status, answer.code) == (422, "DigestMismatch")
        assert sha256(b"x" * size) in answer.message
        assert keys(store, bucket) == []
        assert "Uploads" not in store.client.list_multipart_uploads(Bucket=bucket)

    async def test_a_digest_that_is_none(self, runner: Runner) -> None:
        answer = await runner.upload("f", b"x", {"Content-Digest-Sha256": "md5:1"})
        assert (answer.status, answer.code) == (400, "BadRequest")
        assert "Content-Digest-Sha256" in answer.message

    @pytest.mark.parametrize(
        "path",
        ["%2e%2e/x", "a/%2E%2E/%2E%2E/x", "a%2F..%2Fx", "%2Fetc", "a//b", "a%5Cb", "a%00b", "a/", "a%0Ab"],
    )
    async def test_no_path_leads_out_of_the_prefix(
        self, gateway: GatewayProcess, pod: AttemptPod, store: S3Store, bucket: str, path: str
    ) -> None:
        """Sent as it stands: a client library would tidy some of these up."""
        host, port = gateway.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(
            f"PUT /v1/evidence/{path} HTTP/1.1\r\nHost: g\r\nAuthorization: Bearer {pod.token()}\r\n"
            "Content-Length: 1\r\nConnection: close\r\n\r\nx".encode()
        )
        answer = await reader.read()
        writer.close()
        assert answer.startswith(b"HTTP/1.1 40")
        assert keys(store, bucket) == []

    async def test_the_manifests_name_is_reserved(self, runner: Runner) -> None:
        answer = await runner.upload("manifest.json", b"{}")
        assert (answer.status, answer.code) == (400, "BadRequest")
        assert "PUT /v1/manifest" in answer.message

    async def test_a_key_that_s3_would_refuse(self, runner: Runner) -> None:
        answer = await runner.upload("/".join(["ü" * 100] * 5), b"x")
        assert (answer.status, answer.code) == (400, "BadRequest")
        assert "1024" in answer.message

    async def test_two_tries_never_share_a_prefix(
        self,
        gateway: GatewayProcess,
        evals: Evals,
        spec: TrySpec,
        pod: AttemptPod,
        store: S3Store,
        bucket: str,
    ) -> None:
        """Not even two pods of one try spec: the caller cannot say where to write."""
        other = evals.attempt(spec)
        for writer in (pod, other):
            async with Runner(gateway.url, writer.token()) as runner:
                await runner.upload("f", writer.name.encode())
        assert sorted(keys(store, bucket)) == sorted(
            [prefix_of(spec, pod) + "f", prefix_of(spec, other) + "f"]
        )

    async def test_evidence_cannot_be_read_back(self, runner: Runner) -> None:
        await runner.upload("f", b"x")
        for method in ("GET", "HEAD", "DELETE", "POST"):
            assert (await runner.call(method, "/v1/evidence/f")).status == 405

    async def test_a_file_above_the_limit(
        self, start_gateway: Any, pod: AttemptPod, store: S3Store, bucket: str
    ) -> None:
        gateway = start_gateway(ASSAY_EVIDENCE_FILE_BYTES="1000")

        async def unannounced() -> AsyncIterator[bytes]:
            yield b"x" * 999
            yield b"xx"

        async with Runner(gateway.url, pod.token()) as runner:
            for body in (b"x" * 1001, unannounced()):
                answer = await runner.upload("f", body)
                assert (answer.status, answer.code) == (413, "TooLarge")
        assert keys(store, bucket) == []

    async def test_an_upload_that_falls_silent_ends(
        self, start_gateway: Any, pod: AttemptPod, store: S3Store, bucket: str
    ) -> None:
        gateway = start_gateway(ASSAY_UPLOAD_IDLE_SECONDS="0.2")
        never = asyncio.Event()

        async def silent() -> AsyncIterator[bytes]:
            yield b"x"
            await never.wait()

        async with Runner(gateway.url, pod.token()) as runner:
            answer = await runner.upload("f", silent())
        assert (answer.status, answer.code) == (408, "UploadStalled")
        assert keys(store, bucket) == []


class TestManifest:
    async def test_it_is_stored_as_sent_and_its_digest_answered(
        self, runner: Runner, spec: TrySpec, pod: AttemptPod, store: S3Store, bucket: str
    ) -> None:
        file = (await runner.upload("runner.log", b"log")).json
        body = encoded(manifest(spec, pod, [file]))
        answer = await runner.call("PUT", "/v1/manifest", body)
        assert (answer.status, answer.json) == (200, {"digest": sha256(body)})
        assert store.get_bytes(bucket, prefix_of(spec, pod) + "manifest.json", MIB) == body

    async def test_a_newer_runners_fields_are_kept(
        self, runner: Runner, spec: TrySpec, pod: AttemptPod, store: S3Store, bucket: str
    ) -> None:
        body = json.dumps(manifest(spec, pod, []) | {"energyJoules": 5}).encode()
        assert (await runner.call("PUT", "/v1/manifest", body)).status == 200
        assert store.get_bytes(bucket, prefix_of(spec, pod) + "manifest.json", MIB) == body

    async def test_a_newer_schema_waits_for_a_gateway_that_reads_it(
        self, runner: Runner, spec: TrySpec, pod: AttemptPod
    ) -> None:
        newer = manifest(spec, pod, []) | {"schemaVersion": 2}
        answer = await runner.call("PUT", "/v1/manifest", json.dumps(newer).encode())
        assert (answer.status, answer.code, answer.headers["Retry-After"]) == (503, "GatewayOutdated", "5")

    async def test_the_same_bytes_again_succeed_and_others_conflict(
        self, runner: Runner, spec: TrySpec, pod: AttemptPod, store: S3Store, bucket: str
    ) -> None:
        first = encoded(manifest(spec, pod, []))
        other = encoded(
            manifest(spec, pod, []) | {"result": manifest(spec, pod, [])["result"] | {"reward": 0}}
        )
        assert (await runner.call("PUT", "/v1/manifest", first)).status == 200
        assert (await runner.call("PUT", "/v1/manifest", first)).json == {"digest": sha256(first)}
        answer = await runner.call("PUT", "/v1/manifest", other)
        assert (answer.status, answer.code) == (409, "ManifestConflict")
        assert store.get_bytes(bucket, prefix_of(spec, pod) + "manifest.json", MIB) == first

    async def test_it_seals_the_evidence(
        self, runner: Runner, spec: TrySpec, pod: AttemptPod, store: S3Store, bucket: str
    ) -> None:
        file = (await runner.upload("f", b"sealed")).json
        await runner.call("PUT", "/v1/manifest", encoded(manifest(spec, pod, [file])))
        answer = await runner.upload("f", b"later")
        assert (answer.status, answer.code) == (409, "EvidenceSealed")
        assert store.get_bytes(bucket, prefix_of(spec, pod) + "f", 10) == b"sealed"

    async def test_an_upload_that_was_under_way_when_it_came_is_refused(
        self, runner: Runner, spec: TrySpec, pod: AttemptPod, store: S3Store, bucket: str
    ) -> None:
        begun, go_on = asyncio.Event(), asyncio.Event()

        async def slow() -> AsyncIterator[bytes]:
            yield b"x"
            begun.set()
            await go_on.wait()
            yield b"y"

        upload = asyncio.create_task(runner.upload("late", slow()))
        await begun.wait()
        await runner.call("PUT", "/v1/manifest", encoded(manifest(spec, pod, [])))
        go_on.set()
        assert (await upload).code == "EvidenceSealed"
        assert keys(store, bucket) == [prefix_of(spec, pod) + "manifest.json"]

    async def test_a_file_that_is_absent_or_of_another_size(
        self, runner: Runner, spec: TrySpec, pod: AttemptPod, store: S3Store, bucket: str
    ) -> None:
        await runner.upload("short", b"123")
        files = [{"path": name, "size": 4, "sha256": sha256(b"1234")} for name in ("short", "gone")]
        answer = await runner.call("PUT", "/v1/manifest", encoded(manifest(spec, pod, files)))
        assert (answer.status, answer.code) == (422, "EvidenceMissing")
        assert "short (3 bytes, manifest says 4 bytes)" in answer.message
        assert "gone (absent" in answer.message
        assert keys(store, bucket) == [prefix_of(spec, pod) + "short"]

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("podUid", "00000000-0000-0000-0000-000000000000"),
            ("ledgerDigest", "sha256:" + "0" * 64),
            ("variantFingerprint", "sha256:" + "0" * 64),
            ("archiveDigest", "sha256:" + "0" * 64),
        ],
    )
    async def test_a_manifest_of_another_try(
        self,
        runner: Runner,
        spec: TrySpec,
        pod: AttemptPod,
        store: S3Store,
        bucket: str,
        field: str,
        value: str,
    ) -> None:
        body = encoded(manifest(spec, pod, []) | {field: value})
        answer = await runner.call("PUT", "/v1/manifest", body)
        assert (answer.status, answer.code) == (403, "Forbidden")
        assert field in answer.message
        assert keys(store, bucket) == []

    async def test_another_identity(self, runner: Runner, spec: TrySpec, pod: AttemptPod) -> None:
        document = manifest(spec, pod, [])
        document["identity"]["tryNumber"] = 2
        answer = await runner.call("PUT", "/v1/manifest", encoded(document))
        assert (answer.status, answer.code) == (403, "Forbidden")
        assert "identity" in answer.message

    @pytest.mark.parametrize(
        ("body", "named"),
        [(b"", "Invalid JSON"), (b"{", "Invalid JSON"), (b"{}", "podUid")],
    )
    async def test_no_manifest_at_all(self, runner: Runner, body: bytes, named: str) -> None:
        answer = await runner.call("PUT", "/v1/manifest", body)
        assert (answer.status, answer.code) == (422, "BadManifest")
        assert named in answer.message

    async def test_a_path_listed_twice(self, runner: Runner, spec: TrySpec, pod: AttemptPod) -> None:
        file = (await runner.upload("f", b"x")).json
        answer = await runner.call("PUT", "/v1/manifest", encoded(manifest(spec, pod, [file, file])))
        assert (answer.status, answer.code) == (422, "BadManifest")
