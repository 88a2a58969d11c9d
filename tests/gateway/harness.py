"""A gateway process, and the Kubernetes objects that prove who calls it. Nothing in here is a double."""

import contextlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp
from kubernetes import client, config

from assay.api.labels import (
    ATTEMPT_SERVICE_ACCOUNT,
    GATEWAY_AUDIENCE,
    PROVIDER_KEY,
    ROLE,
    ROLE_ATTEMPT,
    TRY_SPEC,
)
from assay.api.tryspec import ModelTarget, TrySpec

GATEWAY_ACCOUNT = "assay-gateway"
ARCHIVE_DIGEST = "sha256:" + "a" * 64
START_SECONDS = 30
PROVIDER_LABELS = {PROVIDER_KEY: "true"}


class Evals:
    """A namespace of runs on a real API server, with the gateway's own account and rights."""

    def __init__(self, folder: Path) -> None:
        config.load_kube_config()
        # Plain objects go in: the client takes them, its stubs do not.
        self.core: Any = client.CoreV1Api()
        self._rbac: Any = client.RbacAuthorizationV1Api()
        self.name = f"evals-{uuid.uuid4().hex[:8]}"
        self.credentials = folder / "credentials"
        self.credentials.mkdir(parents=True)
        self._create()

    def _create(self) -> None:
        self.core.create_namespace({"metadata": {"name": self.name}})
        for account in (GATEWAY_ACCOUNT, ATTEMPT_SERVICE_ACCOUNT, "somebody-else"):
            self.core.create_namespaced_service_account(self.name, {"metadata": {"name": account}})
        subject = {"kind": "ServiceAccount", "name": GATEWAY_ACCOUNT, "namespace": self.name}
        group = "rbac.authorization.k8s.io"
        rules = [{"apiGroups": [""], "resources": ["pods", "secrets"], "verbs": ["get"]}]
        self._rbac.create_namespaced_role(self.name, {"metadata": {"name": "gateway"}, "rules": rules})
        self._rbac.create_namespaced_role_binding(
            self.name,
            {
                "metadata": {"name": "gateway"},
                "roleRef": {"apiGroup": group, "kind": "Role", "name": "gateway"},
                "subjects": [subject],
            },
        )
        self._rbac.create_cluster_role_binding(
            {
                "metadata": {"name": self.name},
                "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "system:auth-delegator"},
                "subjects": [subject],
            }
        )
        self._write_credentials()

    def _write_credentials(self) -> None:
        """What the kubelet projects into the gateway's pod."""
        request: Any = {"spec": {"audiences": [], "expirationSeconds": 3600}}
        token = self.core.create_namespaced_service_account_token(GATEWAY_ACCOUNT, self.name, request)
        (self.credentials / "token").write_text(token.status.token)
        own = self.core.api_client.configuration
        cluster = {"server": own.host, "certificate-authority": own.ssl_ca_cert}
        document = {
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": {"tokenFile": "token"}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u", "namespace": self.name}}],
            "current-context": "x",
        }
        self.kubeconfig.write_text(json.dumps(document))

    @property
    def kubeconfig(self) -> Path:
        """How the gateway's account reaches the API server."""
        return self.credentials / "kubeconfig"

    def secret(self, name: str, labels: Mapping[str, str] = PROVIDER_LABELS, /, **values: str) -> None:
        """A Secret of a variant."""
        metadata = {"name": name, "labels": dict(labels)}
        self.core.create_namespaced_secret(self.name, {"metadata": metadata, "stringData": values})

    def attempt(
        self, spec: TrySpec | str, account: str = ATTEMPT_SERVICE_ACCOUNT, **changes: Any
    ) -> "AttemptPod":
        """A pod object that is never scheduled: tokens can be bound to it all the same."""
        annotation = spec if isinstance(spec, str) else spec.model_dump_json()
        metadata = {
            "name": f"attempt-{uuid.uuid4().hex[:8]}",
            "labels": {ROLE: ROLE_ATTEMPT},
            "annotations": {TRY_SPEC: annotation},
        } | changes
        pod = self.core.create_namespaced_pod(
            self.name,
            {
                "metadata": metadata,
                "spec": {
                    "serviceAccountName": account,
                    "schedulingGates": [{"name": "assay.dev/never"}],
                    "containers": [{"name": "environment", "image": "assay.test/none"}],
                },
            },
        )
        return AttemptPod(self, pod.metadata.name, pod.metadata.uid)

    def delete(self) -> None:
        self._rbac.delete_cluster_role_binding(self.name)
        self.core.delete_namespace(self.name)


class AttemptPod:
    """One pod object and the tokens that its kubelet would ask for."""

    def __init__(self, evals: Evals, name: str, uid: str) -> None:
        self.evals, self.name, self.uid = evals, name, uid

    def token(
        self, audience: str = GATEWAY_AUDIENCE, account: str = ATTEMPT_SERVICE_ACCOUNT, bound: bool = True
    ) -> str:
        request: dict[str, Any] = {"spec": {"audiences": [audience], "expirationSeconds": 600}}
        if bound:
            reference = {"apiVersion": "v1", "kind": "Pod", "name": self.name, "uid": self.uid}
            request["spec"]["boundObjectRef"] = reference
        answer = self.evals.core.create_namespaced_service_account_token(
            account,
            self.evals.name,
            request,
        )
        return str(answer.status.token)

    def delete(self) -> None:
        """Return when the API server knows the pod no more."""
        self.evals.core.delete_namespaced_pod(self.name, self.evals.name, grace_period_seconds=0)
        with contextlib.suppress(client.ApiException):
            while True:
                self.evals.core.read_namespaced_pod(self.name, self.evals.name)


def try_spec(namespace: str, bucket: str, models: list[ModelTarget] | None = None) -> TrySpec:
    """A try as the operator would render it."""
    digest = "sha256:" + "b" * 64
    return TrySpec.model_validate(
        {
            "identity": {
                "runName": "nightly",
                "runUid": str(uuid.uuid4()),
                "namespace": namespace,
                "ledger": "six",
                "task": "org/task-1",
                "variant": "oracle",
                "repetition": 0,
                "tryNumber": 1,
                "jobName": "task-1-r0-t1",
            },
            "ledgerDigest": digest,
            "variantFingerprint": digest,
            "task": {
                "id": "org/task-1",
                "archiveDigest": ARCHIVE_DIGEST,
                "verifierMode": "shared",
                "network": "none",
                "environmentImage": "assay.test/none",
            },
            "agent": {"name": "oracle"},
            "models": models or [],
            "deadlines": {
                "setupSeconds": 1,
                "agentSeconds": 1,
                "verifierSeconds": 1,
                "uploadSeconds": 60,
            },
            "storage": {"bucket": bucket, "prefix": "runs/"},
            "gatewayUrl": "http://assay-gateway.internal:8080",
        }
    )


class GatewayProcess:
    """`python -m assay.gateway` as the chart starts it, on a port that the kernel picks."""

    def __init__(self, folder: Path, evals: Evals, environment: Mapping[str, str]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.log_file = folder / f"gateway-{uuid.uuid4().hex[:6]}.log"
        self._environment = {
            "PATH": os.environ["PATH"],
            "ASSAY_HOST": "127.0.0.1",
            "ASSAY_PORT": "0",
            "KUBECONFIG": str(evals.kubeconfig),
            "ASSAY_NOTICE_SECONDS": "0",
            "ASSAY_S3_TRIES": "1",
            **environment,
        }
        self.process: subprocess.Popen[bytes] | None = None
        self.url = ""

    def start(self) -> Self:
        with self.log_file.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "assay.gateway"], env=self._environment, stdout=log, stderr=log
            )
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end and self.process.poll() is None:
            if found := re.search(r"listening on (\S+)", self.log):
                self.url = f"http://{found[1]}"
                return self
            time.sleep(0.02)
        raise RuntimeError(f"the gateway did not start: {self.log}")

    @property
    def log(self) -> str:
        return self.log_file.read_text()

    def terminate(self) -> None:
        """What the kubelet does first; returns once the process has taken notice."""
        assert self.process
        self.process.send_signal(signal.SIGTERM)
        while "draining" not in self.log:
            time.sleep(0.01)

    def wait(self) -> int:
        assert self.process
        return self.process.wait(timeout=60)

    def kill(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()


class Answer:
    """Status, headers and body of an answer."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str | None:
        """Our own error code, None for any other answer."""
        return self.headers.get("X-Assay-Error")

    @property
    def message(self) -> str:
        return str(self.json["error"]["message"])


class Runner:
    """Speaks to the gateway as the runner of an attempt pod does."""

    def __init__(self, url: str, token: str | None) -> None:
        self.url = url
        self._token = token
        self.session = aiohttp.ClientSession()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.session.close()

    def headers(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        own = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        return own | dict(more or {})

    async def call(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        body = io.BytesIO(body) if isinstance(body, bytes) else body
        async with self.session.request(
            method, self.url + path, data=body, headers=self.headers(headers)
        ) as answer:
            return Answer(answer.status, answer.headers, await answer.read())

    async def upload(self, path: str, body: Any, headers: Mapping[str, str] | None = None) -> Answer:
        return await self.call("PUT", f"/v1/evidence/{path}", body, headers)
