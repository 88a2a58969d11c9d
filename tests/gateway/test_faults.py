"""The store or the API server is away or misconfigured: the caller is told, waits, and loses nothing."""

from collections.abc import AsyncIterator

import pytest

from assay.adapters.s3 import S3Store
from tests.fixtures.s3 import S3Server, free_port, new_bucket
from tests.gateway.conftest import StartGateway, keys
from tests.gateway.harness import ARCHIVE_DIGEST, AttemptPod, Evals, Runner, try_spec

pytestmark = [pytest.mark.api, pytest.mark.timeout(180)]

MIB = 1 << 20


async def test_a_store_that_is_away_and_comes_back(
    start_gateway: StartGateway, evals: Evals, mortal_s3: S3Server
) -> None:
    bucket = new_bucket(mortal_s3)
    gateway = start_gateway(**mortal_s3.environment)
    async with Runner(gateway.url, evals.attempt(try_spec(evals.name, bucket)).token()) as runner:
        mortal_s3.stop()
        for answer in (
            await runner.upload("f", b"x"),
            await runner.call("PUT", "/v1/manifest", b"{}"),
            await runner.call("GET", f"/v1/tasks/{ARCHIVE_DIGEST}"),
        ):
            assert (answer.status, answer.code) == (503, "StorageUnavailable")
            assert int(answer.headers["Retry-After"]) > 0
        # Still ready: without an endpoint nobody could be told.
        assert (await runner.call("GET", "/readyz")).status == 200
        mortal_s3.start()
        assert (await runner.upload("f", b"x")).status == 200


async def test_a_store_that_dies_under_an_upload(
    start_gateway: StartGateway, evals: Evals, mortal_s3: S3Server
) -> None:
    bucket = new_bucket(mortal_s3)
    gateway = start_gateway(**mortal_s3.environment)

    async def body(deadly: bool) -> AsyncIterator[bytes]:
        yield b"a" * 9 * MIB
        if deadly:
            mortal_s3.stop()
        for _ in range(3):
            yield b"b" * 9 * MIB

    async with Runner(gateway.url, evals.attempt(try_spec(evals.name, bucket)).token()) as runner:
        answer = await runner.upload("f", body(deadly=True))
        assert (answer.status, answer.code) == (503, "StorageUnavailable")
        mortal_s3.start()
        assert keys(mortal_s3.store, bucket) == []
        assert (await runner.upload("f", body(deadly=False))).json["size"] == 36 * MIB


@pytest.mark.parametrize(
    ("change", "setting"),
    [
        ({"AWS_ACCESS_KEY_ID": "unknown"}, "AWS_ACCESS_KEY_ID"),
        ({"AWS_SECRET_ACCESS_KEY": "wrong"}, "AWS_SECRET_ACCESS_KEY"),
    ],
)
async def test_wrong_credentials_name_the_setting(
    start_gateway: StartGateway, pod: AttemptPod, change: dict[str, str], setting: str
) -> None:
    """503: once somebody has corrected the Secret, the repeated upload succeeds."""
    gateway = start_gateway(**change)
    async with Runner(gateway.url, pod.token()) as runner:
        answer = await runner.upload("f", b"x")
        assert (answer.status, answer.code) == (503, "StorageDenied")
        assert setting in answer.message
        assert "Retry-After" in answer.headers


async def test_a_bucket_that_does_not_exist_yet(
    start_gateway: StartGateway, evals: Evals, s3_server: S3Server, store: S3Store
) -> None:
    gateway = start_gateway()
    pod = evals.attempt(try_spec(evals.name, f"late-{free_port()}"))
    async with Runner(gateway.url, pod.token()) as runner:
        answer = await runner.upload("f", b"x")
        assert (answer.status, answer.code) == (503, "NoSuchBucket")
        assert "late-" in answer.message
        store.client.create_bucket(Bucket=answer.message.split()[1])
        assert (await runner.upload("f", b"x")).status == 200


async def test_an_api_server_that_is_away(start_gateway: StartGateway, evals: Evals, pod: AttemptPod) -> None:
    kubeconfig = evals.credentials / "nobody"
    kubeconfig.write_text(
        evals.kubeconfig.read_text().replace(
            evals.core.api_client.configuration.host, f"https://127.0.0.1:{free_port()}"
        )
    )
    gateway = start_gateway(KUBECONFIG=str(kubeconfig))
    async with Runner(gateway.url, pod.token()) as runner:
        answer = await runner.upload("f", b"x")
    assert (answer.status, answer.code) == (503, "KubernetesUnavailable")
    assert "Retry-After" in answer.headers


async def test_a_gateway_without_its_rights(
    start_gateway: StartGateway, evals: Evals, pod: AttemptPod
) -> None:
    """An administrator's fault must not look like the runner's, whose token is good."""
    (evals.credentials / "powerless").write_text(
        pod.token(audience="https://kubernetes.default.svc.cluster.local")
    )
    kubeconfig = evals.credentials / "powerless-config"
    kubeconfig.write_text(evals.kubeconfig.read_text().replace('"token"', '"powerless"'))
    gateway = start_gateway(KUBECONFIG=str(kubeconfig))
    async with Runner(gateway.url, pod.token()) as runner:
        answer = await runner.upload("f", b"x")
    assert (answer.status, answer.code) == (503, "KubernetesUnavailable")
    assert "tokenreviews" in answer.message
    assert "RBAC" in answer.message
