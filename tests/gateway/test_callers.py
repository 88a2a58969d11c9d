"""Who may use the gateway, judged by a real API server."""

import asyncio
import base64
import json
import os
import subprocess
import time
import uuid
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, utils

from assay.adapters.s3 import S3Store
from assay.api.labels import ROLE, TRY_SPEC
from assay.api.tryspec import TrySpec
from tests.gateway.conftest import StartGateway, keys
from tests.gateway.harness import ARCHIVE_DIGEST, Answer, AttemptPod, Evals, GatewayProcess, Runner, try_spec

pytestmark = pytest.mark.api


async def attempt_upload(gateway: GatewayProcess, token: str | None) -> Answer:
    async with Runner(gateway.url, token) as runner:
        return await runner.upload("f", b"x")


def segment(document: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(document).encode()).rstrip(b"=").decode()


def claims(token: str, part: int = 1) -> dict[str, Any]:
    text = token.split(".")[part]
    decoded: dict[str, Any] = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    return decoded


class TestRefused:
    @pytest.mark.parametrize("token", [None, "", "nonsense", "a.b.c", "x" * 5000, "é.é.é"])
    async def test_no_token_worth_the_name(self, gateway: GatewayProcess, token: str | None) -> None:
        answer = await attempt_upload(gateway, token)
        assert (answer.status, answer.code) == (401, "Unauthenticated")

    async def test_a_token_for_another_audience(self, gateway: GatewayProcess, pod: AttemptPod) -> None:
        """The API server's own tokens included: what an agent finds in other pods opens nothing here."""
        for audience in ("https://kubernetes.default.svc.cluster.local", "vault"):
            answer = await attempt_upload(gateway, pod.token(audience=audience))
            assert (answer.status, answer.code) == (401, "Unauthenticated")

    async def test_another_service_account(
        self, gateway: GatewayProcess, evals: Evals, spec: TrySpec
    ) -> None:
        pod = evals.attempt(spec, account="somebody-else")
        answer = await attempt_upload(gateway, pod.token(account="somebody-else"))
        assert (answer.status, answer.code) == (403, "Forbidden")
        assert "somebody-else" in answer.message

    async def test_a_token_that_is_bound_to_no_pod(self, gateway: GatewayProcess, pod: AttemptPod) -> None:
        answer = await attempt_upload(gateway, pod.token(bound=False))
        assert (answer.status, answer.code) == (403, "Forbidden")
        assert "not bound to a pod" in answer.message

    async def test_the_attempt_account_of_another_namespace(
        self, gateway: GatewayProcess, tmp_path: Path, bucket: str
    ) -> None:
        elsewhere = Evals(tmp_path / "elsewhere")
        try:
            pod = elsewhere.attempt(try_spec(elsewhere.name, bucket))
            answer = await attempt_upload(gateway, pod.token())
        finally:
            elsewhere.delete()
        assert (answer.status, answer.code) == (403, "Forbidden")

    async def test_a_deleted_pod(self, start_gateway: StartGateway, pod: AttemptPod) -> None:
        gateway = start_gateway(ASSAY_VERDICT_SECONDS="0")
        token = pod.token()
        assert (await attempt_upload(gateway, token)).status == 200
        pod.delete()
        assert (await attempt_upload(gateway, token)).status == 401

    async def test_the_token_of_an_earlier_pod_of_that_name(
        self,
        start_gateway: StartGateway,
        evals: Evals,
        spec: TrySpec,
        pod: AttemptPod,
        store: S3Store,
        bucket: str,
    ) -> None:
        gateway = start_gateway(ASSAY_VERDICT_SECONDS="0")
        token = pod.token()
        assert (await attempt_upload(gateway, token)).status == 200
        written = keys(store, bucket)
        pod.delete()
        evals.attempt(spec, name=pod.name)
        # The API server remembers its own verdict for some seconds: then it is we who refuse.
        assert (await attempt_upload(gateway, token)).status in (401, 403)
        assert keys(store, bucket) == written

    async def test_an_expired_token(self, gateway: GatewayProcess, pod: AttemptPod) -> None:
        """Signed with the cluster's own key, so that its age is all that is wrong."""
        key_file = Path(os.environ["KUBECONFIG"]).parent / "pki" / "service-account.key"
        if not key_file.exists():
            pytest.skip("this cluster does not show its signing key, and no token lives less than 10 minutes")
        token = pod.token()
        now = int(time.time())
        good = resigned(token, key_file, {"exp": now + 600})
        assert (await attempt_upload(gateway, good)).status == 200
        old = resigned(token, key_file, {"iat": now - 7200, "nbf": now - 7200, "exp": now - 3600})
        answer = await attempt_upload(gateway, old)
        assert (answer.status, answer.code) == (401, "Unauthenticated")

    @pytest.mark.parametrize(
        ("changes", "named"),
        [
            ({"labels": {}}, ROLE),
            ({"labels": {ROLE: "gateway"}}, ROLE),
            ({"annotations": {}}, TRY_SPEC),
            ({"annotations": {TRY_SPEC: "{"}}, TRY_SPEC),
            ({"annotations": {TRY_SPEC: '{"identity": {}}'}}, "identity.runName"),
        ],
    )
    async def test_a_pod_that_is_no_attempt(
        self, gateway: GatewayProcess, evals: Evals, spec: TrySpec, changes: dict[str, Any], named: str
    ) -> None:
        answer = await attempt_upload(gateway, evals.attempt(spec, **changes).token())
        assert (answer.status, answer.code) == (403, "Forbidden")
        assert named in answer.message

    async def test_a_try_of_another_namespace(
        self, gateway: GatewayProcess, evals: Evals, bucket: str
    ) -> None:
        answer = await attempt_upload(gateway, evals.attempt(try_spec("other", bucket)).token())
        assert (answer.status, answer.code) == (403, "Forbidden")
        assert "namespace other" in answer.message

    async def test_every_route_but_the_probes_asks(self, gateway: GatewayProcess) -> None:
        async with Runner(gateway.url, None) as nobody:
            for path in ("/healthz", "/readyz", "/metrics"):
                assert (await nobody.call("GET", path)).status == 200
            for method, path in (
                ("GET", f"/v1/tasks/{ARCHIVE_DIGEST}"),
                ("PUT", "/v1/evidence/f"),
                ("PUT", "/v1/manifest"),
                ("POST", "/v1/models/0/chat/completions"),
            ):
                assert (await nobody.call(method, path)).code == "Unauthenticated"
            assert (await nobody.call("GET", "/v1/nothing")).code == "NotFound"


class TestArchive:
    async def test_the_own_task_comes_whole(self, runner: Runner, store: S3Store, bucket: str) -> None:
        body = os.urandom(3_000_000)
        store.put_bytes(bucket, f"tasks/{ARCHIVE_DIGEST.replace(':', '-')}.tar", body)
        answer = await runner.call("GET", f"/v1/tasks/{ARCHIVE_DIGEST}")
        assert (answer.status, answer.headers["Content-Length"]) == (200, str(len(body)))
        assert answer.body == body

    async def test_no_other_task(self, runner: Runner, store: S3Store, bucket: str) -> None:
        other = "sha256:" + "0" * 64
        store.put_bytes(bucket, f"tasks/{other.replace(':', '-')}.tar", b"hidden tests")
        answer = await runner.call("GET", f"/v1/tasks/{other}")
        assert (answer.status, answer.code) == (403, "Forbidden")

    async def test_one_that_was_never_published(self, runner: Runner) -> None:
        answer = await runner.call("GET", f"/v1/tasks/{ARCHIVE_DIGEST}")
        assert (answer.status, answer.code) == (404, "UnknownArchive")
        assert "assay ledger publish" in answer.message


async def test_many_requests_at_once_cost_one_review(start_gateway: StartGateway, pod: AttemptPod) -> None:
    """Seen in the API server's own count: runners open with a burst, and there are hundreds of them."""
    gateway = start_gateway()

    def reviews() -> float:
        command = ["kubectl", "get", "--raw", "/metrics"]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        lines = [line for line in text.splitlines() if line.startswith("apiserver_request_total{")]
        return sum(float(line.split()[-1]) for line in lines if 'resource="tokenreviews"' in line)

    before = reviews()
    async with Runner(gateway.url, pod.token()) as runner:
        answers = await asyncio.gather(*(runner.upload(f"f{number}", b"x") for number in range(20)))
    assert {answer.status for answer in answers} == {200}
    assert reviews() - before == 1


def resigned(token: str, key_file: Path, changes: dict[str, Any]) -> str:
    """The same token with other claims, signed as the API server signs."""
    key = serialization.load_pem_private_key(key_file.read_bytes(), password=None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    fresh = claims(token) | {"jti": str(uuid.uuid4())} | changes
    signed = f"{token.split('.')[0]}.{segment(fresh)}"
    r, s = utils.decode_dss_signature(key.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
    raw = r.to_bytes(32, "big") + s.to_bytes(32, "big")
    return f"{signed}.{base64.urlsafe_b64encode(raw).rstrip(b'=').decode()}"
