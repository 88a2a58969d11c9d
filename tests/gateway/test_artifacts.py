"""A try that only verifies reads what the try that it judges left, and nothing else."""

from pathlib import Path

import pytest

from assay.adapters.s3 import S3Store
from assay.api.evidence import ARTIFACTS
from assay.api.tryspec import ModelTarget, TrySpec, VerifyOnly
from assay.core.names import try_prefix
from assay.runner.gateway_client import Deadline, DigestMismatch, GatewayClient, GatewayRefused
from tests.gateway.conftest import keys
from tests.gateway.harness import AttemptPod, Evals, GatewayProcess, Runner
from tests.gateway.test_evidence import encoded, manifest, sha256

pytestmark = pytest.mark.api

TAR = b"what crossed to the verifier" * 100_000


def judging(spec: TrySpec, judged: AttemptPod, digest: str) -> TrySpec:
    """The second try of the attempt, which judges its first one again."""
    again = VerifyOnly(
        try_number=1, pod_uid=judged.uid, manifest_digest=sha256(b"manifest"), artifacts_digest=digest
    )
    identity = spec.identity.model_copy(update={"try_number": 2, "job_name": "task-1-r0-t2"})
    return spec.model_copy(update={"identity": identity, "verify_only": again})


async def fetch(gateway: GatewayProcess, pod: AttemptPod, folder: Path, digest: str) -> bytes:
    token = folder / "token"
    token.write_text(pod.token())
    async with GatewayClient(gateway.url, token) as client:
        await client.fetch_artifacts(digest, folder / "artifacts.tar", Deadline(60))
    return (folder / "artifacts.tar").read_bytes()


async def test_the_runner_gets_the_bytes_that_the_judged_try_stored(
    gateway: GatewayProcess, evals: Evals, spec: TrySpec, pod: AttemptPod, runner: Runner, tmp_path: Path
) -> None:
    assert (await runner.upload(ARTIFACTS, TAR)).status == 200
    second = evals.attempt(judging(spec, pod, sha256(TAR)))
    assert await fetch(gateway, second, tmp_path, sha256(TAR)) == TAR


async def test_an_ordinary_try_reads_no_artefacts_not_even_its_own(
    gateway: GatewayProcess, pod: AttemptPod, runner: Runner, tmp_path: Path
) -> None:
    await runner.upload(ARTIFACTS, TAR)
    with pytest.raises(GatewayRefused, match="Forbidden"):
        await fetch(gateway, pod, tmp_path, sha256(TAR))


async def test_no_other_digest_can_be_asked_for(
    gateway: GatewayProcess, evals: Evals, spec: TrySpec, pod: AttemptPod, runner: Runner, tmp_path: Path
) -> None:
    await runner.upload(ARTIFACTS, TAR)
    second = evals.attempt(judging(spec, pod, sha256(b"something else")))
    with pytest.raises(GatewayRefused, match="Forbidden"):
        await fetch(gateway, second, tmp_path, sha256(TAR))


async def test_what_was_changed_in_the_store_is_not_taken(
    gateway: GatewayProcess,
    evals: Evals,
    spec: TrySpec,
    pod: AttemptPod,
    store: S3Store,
    bucket: str,
    tmp_path: Path,
) -> None:
    store.put_bytes(bucket, try_prefix(spec.storage, spec.identity, pod.uid) + ARTIFACTS, b"easier to pass")
    second = evals.attempt(judging(spec, pod, sha256(TAR)))
    with pytest.raises(DigestMismatch, match="artefacts"):
        await fetch(gateway, second, tmp_path, sha256(TAR))
    assert not (tmp_path / "artifacts.tar").exists()


async def test_another_attempts_artefacts_are_out_of_reach(
    gateway: GatewayProcess, evals: Evals, spec: TrySpec, pod: AttemptPod, runner: Runner, tmp_path: Path
) -> None:
    await runner.upload(ARTIFACTS, TAR)
    elsewhere = judging(spec, pod, sha256(TAR))
    other = elsewhere.identity.model_copy(update={"repetition": 1})
    second = evals.attempt(elsewhere.model_copy(update={"identity": other}))
    with pytest.raises(GatewayRefused, match=r"UnknownArtifacts: .*r1/try-1/"):
        await fetch(gateway, second, tmp_path, sha256(TAR))


async def test_it_writes_its_own_evidence_and_a_manifest_that_says_what_it_judged(
    gateway: GatewayProcess, evals: Evals, spec: TrySpec, pod: AttemptPod, store: S3Store, bucket: str
) -> None:
    own = judging(spec, pod, sha256(TAR))
    second = evals.attempt(own)
    async with Runner(gateway.url, second.token()) as runner:
        silent = await runner.call("PUT", "/v1/manifest", encoded(manifest(own, second, [])))
        assert (silent.status, silent.code) == (403, "Forbidden")
        assert "verifyOnly" in silent.message
        assert own.verify_only is not None
        said = manifest(own, second, []) | {"verifyOnly": own.verify_only.model_dump()}
        assert (await runner.call("PUT", "/v1/manifest", encoded(said))).status == 200
    assert keys(store, bucket) == [
        try_prefix(own.storage, own.identity, second.uid) + "manifest.json",
    ]


async def test_it_can_call_no_model(
    gateway: GatewayProcess, evals: Evals, spec: TrySpec, pod: AttemptPod
) -> None:
    own = judging(spec, pod, sha256(TAR))
    target = ModelTarget(role="main", name="m", api="OpenAIChat", endpoint="http://127.0.0.1:9")
    for models in ([], [target]):
        attempt = evals.attempt(own.model_copy(update={"models": models}))
        async with Runner(gateway.url, attempt.token()) as runner:
            answer = await runner.call("POST", "/v1/models/0/chat/completions", b"{}")
        assert (answer.status, answer.code) == (403, "Forbidden")
