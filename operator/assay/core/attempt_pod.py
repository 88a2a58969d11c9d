"""The Job of one try, rendered: the attempt pod of design §5. The same arguments give the same manifest."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from assay.api import labels
from assay.api.evaluation_run import EvaluationRun, ImageRewrite, Placement
from assay.api.ledgerfile import NetworkMode, ResourceMultiples, TaskLine, VerifierMode
from assay.api.tryspec import TrySpec
from assay.core.observation import ENVIRONMENT, INJECT, RUNNER, VERIFIER, rendered_digest
from assay.core.plan import RunPlan, percent
from assay.core.pod_causes import RUNNER_MEMORY_GIB
from assay.core.record import AttemptKey

Manifest = dict[str, Any]

RUNNER_UID = 65532
RUNNER_COMMAND = ("/opt/assay/bin/python", "-m", "assay.runner")
"""Where every runner image has its Python; a benchmark's own image is built on ours."""
TRY_SPEC_BYTES = 64 * 1024
GRACE_SLACK_SECONDS = 30
POD_SLACK_SECONDS = 300
"""Beyond all phases, before the kubelet ends a pod whose own deadlines all failed."""

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
SOCKET_FILE = "s"


class RenderRefused(Exception):
    """The try cannot be rendered; the message names the limit and the fix."""


@dataclass(frozen=True, slots=True)
class Images:
    """Images of Assay that execute a try, by digest, as the run resolved them."""

    runner: str
    sandboxd: str


def render_job(
    run: EvaluationRun, plan: RunPlan, spec: TrySpec, images: Images, gateway_address: str
) -> Manifest:
    """The `batch/v1` Job of the try. `gateway_address` is the ClusterIP of the gateway's Service.

    Raises RenderRefused if the try spec does not fit its annotation.
    """
    identity = spec.identity
    ledger = plan.ledgers[identity.ledger]
    task = ledger.tasks[identity.task]
    try_spec_json = spec.annotation()
    if len(try_spec_json.encode()) > TRY_SPEC_BYTES:
        raise RenderRefused(
            f"the try spec of variant {identity.variant} has more than {TRY_SPEC_BYTES} bytes: "
            "shorten its arguments and environment"
        )
    own = Images(ledger.runner_image or images.runner, images.sandboxd)
    pod_spec = _pod_spec(run, spec, task, ledger.header.plan.resources, own, gateway_address)
    key = str(AttemptKey.of(identity))
    object_labels = _labels(run, spec, task)
    about_try = {labels.TRY_NUMBER: str(identity.try_number)}
    if spec.verify_only:
        about_try[labels.VERIFIES] = str(spec.verify_only.try_number)
    job_labels = dict(object_labels)
    if run.spec.queue_name:
        job_labels[QUEUE_LABEL] = run.spec.queue_name
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": identity.job_name,
            "namespace": identity.namespace,
            "labels": job_labels,
            "annotations": {
                labels.ATTEMPT: key,
                **about_try,
                labels.RENDERED_DIGEST: rendered_digest(pod_spec, try_spec_json),
            },
            "ownerReferences": [owner_reference(run)],
        },
        "spec": {
            # A further try is the operator's decision, by the class of this one (docs/decisions).
            "backoffLimit": 0,
            "podReplacementPolicy": "Failed",
            "suspend": run.spec.queue_name is not None,
            "template": {
                "metadata": {
                    "labels": object_labels,
                    "annotations": {
                        labels.ATTEMPT: key,
                        labels.TRY_SPEC: try_spec_json,
                        "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
                        "karpenter.sh/do-not-disrupt": "true",
                    },
                },
                "spec": pod_spec,
            },
        },
    }


def owner_reference(run: EvaluationRun) -> Manifest:
    """Reference that makes the run's deletion delete what it owns."""
    return {
        "apiVersion": run.api_version,
        "kind": run.kind,
        "name": run.metadata.name,
        "uid": run.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def rewrite(image: str, rewrites: Sequence[ImageRewrite]) -> str:
    """The image where its mirror has it: the longest prefix that matches is replaced, the digest stays."""
    best = max(
        (one for one in rewrites if image.startswith(one.from_)), key=lambda one: len(one.from_), default=None
    )
    return image if best is None else best.to + image.removeprefix(best.from_)


def _labels(run: EvaluationRun, spec: TrySpec, task: TaskLine) -> dict[str, str]:
    return {
        labels.MANAGED_BY: "assay",
        labels.ROLE: labels.ROLE_ATTEMPT,
        labels.RUN_UID: run.metadata.uid,
        labels.NETWORK: task.network.value,
        labels.LEDGER: spec.identity.ledger,
        labels.VARIANT: spec.identity.variant,
    }


def _pod_spec(
    run: EvaluationRun,
    spec: TrySpec,
    task: TaskLine,
    multiples: ResourceMultiples,
    images: Images,
    gateway_address: str,
) -> Manifest:
    placement = run.spec.placement or Placement()
    siblings = _siblings(spec, task)
    sandboxd = rewrite(images.sandboxd, placement.image_rewrites)
    resources = _task_resources(task, multiples)
    grace = spec.deadlines.upload_seconds + GRACE_SLACK_SECONDS
    images_of = {
        ENVIRONMENT: task.images.environment,
        VERIFIER: task.images.verifier or task.images.environment,
    }
    *before, main = (
        _sibling(name, rewrite(images_of[name], placement.image_rewrites), resources, grace)
        for name in siblings
    )
    init = [
        _inject(sandboxd, siblings),
        _runner(
            rewrite(images.runner, placement.image_rewrites), siblings, run.spec.deadlines.pending_seconds
        ),
        *before,
    ]
    return {
        "serviceAccountName": labels.ATTEMPT_SERVICE_ACCOUNT,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "restartPolicy": "Never",
        "activeDeadlineSeconds": _active_deadline(run.spec.deadlines.pending_seconds, spec),
        "terminationGracePeriodSeconds": grace,
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "hostAliases": [{"ip": gateway_address, "hostnames": [labels.GATEWAY_HOST]}],
        **_dns(task.network),
        **_placement(placement),
        "initContainers": init,
        "containers": [main],
        "volumes": _volumes(siblings),
    }


def _siblings(spec: TrySpec, task: TaskLine) -> list[str]:
    """The task's containers in the order in which they run; the last one ends the pod."""
    if spec.verify_only:
        return [VERIFIER]
    return [ENVIRONMENT, VERIFIER] if task.verifier_mode is VerifierMode.SEPARATE else [ENVIRONMENT]


def _active_deadline(pending_seconds: int, spec: TrySpec) -> int:
    deadlines = spec.deadlines
    agent_seconds = 0 if spec.verify_only else deadlines.agent_seconds
    phases = deadlines.setup_seconds + agent_seconds + deadlines.verifier_seconds
    return pending_seconds + phases + deadlines.upload_seconds + POD_SLACK_SECONDS


def _dns(network: NetworkMode) -> Manifest:
    if network is NetworkMode.INTERNET:
        return {"dnsPolicy": "ClusterFirst"}
    # DNS would be a way out; the gateway is known by hostAliases.
    return {"dnsPolicy": "None", "dnsConfig": {"nameservers": ["127.0.0.1"]}}


def _placement(placement: Placement) -> Manifest:
    given = placement.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"image_rewrites"})
    return {name: value for name, value in given.items() if value}


def _volumes(siblings: Sequence[str]) -> list[Manifest]:
    token = {
        "serviceAccountToken": {
            "audience": labels.GATEWAY_AUDIENCE,
            "path": "token",
            "expirationSeconds": 3600,
        }
    }
    try_file = {"path": "try.json", "fieldRef": {"fieldPath": f"metadata.annotations['{labels.TRY_SPEC}']"}}
    per_sibling = [
        volume
        for name in siblings
        for volume in (
            {"name": f"bin-{name}", "emptyDir": {}},
            {"name": f"sock-{name}", "emptyDir": {}},
        )
    ]
    return [
        *per_sibling,
        {"name": "work", "emptyDir": {}},
        {"name": "gateway-token", "projected": {"sources": [token]}},
        {"name": "try", "downwardAPI": {"items": [try_file]}},
    ]


_UNPRIVILEGED: Manifest = {
    "runAsNonRoot": True,
    "runAsUser": RUNNER_UID,
    "runAsGroup": RUNNER_UID,
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
}


def _inject(image: str, siblings: Sequence[str]) -> Manifest:
    """Copies sandboxd into one volume a sibling, so that no sibling can touch what another one runs."""
    return {
        "name": INJECT,
        "image": image,
        "command": ["/sandboxd", "install", *(f"/inject/{name}" for name in siblings)],
        "securityContext": {**_UNPRIVILEGED, "readOnlyRootFilesystem": True},
        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "64Mi"}},
        "volumeMounts": [{"name": f"bin-{name}", "mountPath": f"/inject/{name}"} for name in siblings],
    }


def _runner(image: str, siblings: Sequence[str], pending_seconds: int) -> Manifest:
    """Native sidecar: it alone holds the token, the tests and the solution."""
    fields = {"POD_NAME": "metadata.name", "POD_UID": "metadata.uid", "POD_NAMESPACE": "metadata.namespace"}
    return {
        "name": RUNNER,
        "image": image,
        "restartPolicy": "Always",
        "command": [*RUNNER_COMMAND, "run"],
        "env": [
            *(
                {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
                for name, path in fields.items()
            ),
            {"name": "HOME", "value": "/work"},
            {"name": "TMPDIR", "value": "/work/tmp"},
            {"name": "ASSAY_PENDING_SECONDS", "value": str(pending_seconds)},
        ],
        "lifecycle": {"preStop": {"exec": {"command": [*RUNNER_COMMAND, "prestop"]}}},
        "securityContext": _UNPRIVILEGED,
        # No CPU limit: a throttled runner would eat into the agent's time.
        "resources": {
            "requests": {"cpu": "50m", "memory": "256Mi"},
            "limits": {"memory": f"{RUNNER_MEMORY_GIB}Gi"},
        },
        "volumeMounts": [
            *({"name": f"sock-{name}", "mountPath": f"/sock/{name}"} for name in siblings),
            {"name": "work", "mountPath": "/work"},
            {"name": "gateway-token", "mountPath": "/var/run/assay", "readOnly": True},
            {"name": "try", "mountPath": "/etc/assay", "readOnly": True},
        ],
    }


def _sibling(name: str, image: str, resources: Manifest, grace_seconds: int) -> Manifest:
    """A container of the task's own image, as the task's user, with sandboxd as its first process.

    sandboxd stays until the runner has saved the evidence, at most until just before the grace ends.
    """
    return {
        "name": name,
        "image": image,
        "command": [
            "/assay/bin/sandboxd",
            "serve",
            "--socket",
            f"/assay/sock/{SOCKET_FILE}",
            "--runner-uid",
            str(RUNNER_UID),
            "--grace",
            f"{grace_seconds}s",
        ],
        # With NET_RAW a root agent could read the runner's token from the network that they share.
        "securityContext": {"capabilities": {"drop": ["NET_RAW"]}},
        "resources": resources,
        "volumeMounts": [
            {"name": f"bin-{name}", "mountPath": "/assay/bin", "readOnly": True},
            {"name": f"sock-{name}", "mountPath": "/assay/sock"},
        ],
    }


def _task_resources(task: TaskLine, multiples: ResourceMultiples) -> Manifest:
    asked = task.resources
    return {
        kind: {
            "cpu": f"{percent(asked.cpu_millis, multiple)}m",
            "memory": f"{percent(asked.memory_mib, multiple)}Mi",
            "ephemeral-storage": f"{percent(asked.storage_mib, multiple)}Mi",
        }
        for kind, multiple in (("requests", multiples.request_percent), ("limits", multiples.limit_percent))
    }
