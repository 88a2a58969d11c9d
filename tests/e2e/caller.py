"""A pod as the gateway knows attempts, whose token a test may use: its calls are those of a runner."""

import http.client
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from assay.api import labels
from assay.api.agent_variant import AgentVariantSpec
from assay.api.ledgerfile import NetworkMode, VerifierMode
from assay.api.tryspec import AttemptIdentity, Deadlines, StorageTarget, TaskRef, TrySpec
from assay.core.variants import agent_spec, model_targets
from demo.install import RUN_NAMESPACE
from demo.kube import PODS
from tests.e2e.bench import SECONDS, Bench, unique
from tests.e2e.trouble import container_state

_DIGEST = "sha256:" + "0" * 64


@contextmanager
def caller(bench: Bench, model: dict[str, Any]) -> Iterator[str]:
    """The token of a pod whose try spec declares this model."""
    name = unique("caller")
    bench.kube.create(PODS, RUN_NAMESPACE, _pod(bench, name, _try_spec(bench, name, model)))
    try:
        found = bench.kube.wait(
            PODS,
            RUN_NAMESPACE,
            name,
            lambda pod: "running" in container_state(pod, "idle"),
            what="the caller's pod runs",
            seconds=SECONDS,
        )
        yield _token(bench, name, found["metadata"]["uid"])
    finally:
        bench.kube.delete(PODS, RUN_NAMESPACE, name, grace_seconds=0)


def _try_spec(bench: Bench, name: str, model: dict[str, Any]) -> TrySpec:
    variant = AgentVariantSpec.model_validate({"agent": {"name": "terminus-2"}, "models": [model]})
    return TrySpec(
        identity=AttemptIdentity(
            run_name=name,
            run_uid=str(uuid.uuid4()),
            namespace=RUN_NAMESPACE,
            ledger="none",
            task="none",
            variant="none",
            repetition=0,
            try_number=1,
            job_name=name,
        ),
        ledger_digest=_DIGEST,
        variant_fingerprint=_DIGEST,
        task=TaskRef(
            id="none",
            archive_digest=_DIGEST,
            verifier_mode=VerifierMode.SHARED,
            network=NetworkMode.NONE,
            environment_image=bench.task_image,
        ),
        agent=agent_spec(variant),
        models=model_targets(variant),
        deadlines=Deadlines(setup_seconds=60, agent_seconds=60, verifier_seconds=60, upload_seconds=60),
        storage=StorageTarget(bucket=bench.bucket, prefix="tests/"),
        gateway_url=f"http://{labels.GATEWAY_HOST}:{labels.GATEWAY_PORT}",
    )


def _pod(bench: Bench, name: str, spec: TrySpec) -> dict[str, Any]:
    return {
        "metadata": {
            "name": name,
            "labels": {labels.ROLE: labels.ROLE_ATTEMPT, labels.NETWORK: "none"},
            "annotations": {labels.TRY_SPEC: spec.model_dump_json(exclude_none=True)},
        },
        "spec": {
            "serviceAccountName": labels.ATTEMPT_SERVICE_ACCOUNT,
            "automountServiceAccountToken": False,
            "containers": [{"name": "idle", "image": bench.task_image, "command": ["sleep", "600"]}],
        },
    }


def _token(bench: Bench, pod: str, uid: str) -> str:
    account = f"/api/v1/namespaces/{RUN_NAMESPACE}/serviceaccounts/{labels.ATTEMPT_SERVICE_ACCOUNT}/token"
    asked = {
        "audiences": [labels.GATEWAY_AUDIENCE],
        "expirationSeconds": 600,
        "boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": pod, "uid": uid},
    }
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": asked}
    return str(bench.kube.request("POST", account, body=body)["status"]["token"])


@contextmanager
def open_stream(address: str, token: str, model: str) -> Iterator[http.client.HTTPResponse]:
    """The open answer of a streamed chat completion, asked of the gateway's pod at `address`."""
    connection = http.client.HTTPConnection(address, labels.GATEWAY_PORT, timeout=120)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    message = '{"role": "user", "content": "Say something."}'
    body = f'{{"model": "{model}", "stream": true, "messages": [{message}]}}'
    try:
        connection.request("POST", "/v1/models/0/chat/completions", body, headers)
        with connection.getresponse() as answer:
            yield answer
    finally:
        connection.close()
