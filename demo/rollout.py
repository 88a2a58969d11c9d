"""Waits for Deployments, and says at once why a pod cannot become ready."""

import time

from demo.errors import DemoError
from demo.kube import DEPLOYMENTS, PODS, Kube, Object

_HOPELESS = {
    "CrashLoopBackOff",
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
}
_PATIENCE_SECONDS = 20
"""A container that cannot start may get over it: a Secret that comes late, a registry that starts."""
_POLL_SECONDS = 0.5


def await_rollout(kube: Kube, namespace: str, name: str, seconds: float = 300) -> None:
    """Returns when every pod of the Deployment is new and available. Raises DemoError with the cause."""
    deadline = time.monotonic() + seconds
    troubled_since: float | None = None
    while True:
        deployment = kube.get(DEPLOYMENTS, namespace, name)
        if _complete(deployment):
            return
        trouble = _trouble(kube, namespace, deployment)
        now = time.monotonic()
        troubled_since = (troubled_since or now) if trouble else None
        hopeless = troubled_since is not None and now - troubled_since > _PATIENCE_SECONDS
        if hopeless or now > deadline:
            cause = trouble or f"not ready within {seconds:.0f} s"
            look = f"kubectl -n {namespace} get pods; kubectl -n {namespace} logs deployment/{name}"
            raise DemoError(f"deployment {namespace}/{name}: {cause}", look)
        time.sleep(_POLL_SECONDS)


def _complete(deployment: Object) -> bool:
    status, wanted = deployment.get("status", {}), deployment["spec"]["replicas"]
    return bool(
        status.get("observedGeneration", 0) >= deployment["metadata"]["generation"]
        and status.get("updatedReplicas", 0) == wanted
        and status.get("replicas", 0) == wanted
        and status.get("availableReplicas", 0) == wanted
    )


def _trouble(kube: Kube, namespace: str, deployment: Object) -> str:
    labels = deployment["spec"]["selector"]["matchLabels"]
    for pod in kube.items(PODS, namespace, ",".join(f"{key}={value}" for key, value in labels.items())):
        status = pod.get("status", {})
        for container in (*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])):
            waiting = container["state"].get("waiting", {})
            if waiting.get("reason") in _HOPELESS:
                last = container.get("lastState", {}).get("terminated", {}).get("message", "")
                words = ": ".join(
                    part for part in (waiting["reason"], waiting.get("message", ""), last) if part
                )
                return f"pod {pod['metadata']['name']}: {words}"
    return _unmade(deployment)


def _unmade(deployment: Object) -> str:
    """Why the Deployment has no pods at all: pod security, a quota."""
    conditions = deployment.get("status", {}).get("conditions", [])
    failed = (item for item in conditions if item["type"] == "ReplicaFailure" and item["status"] == "True")
    return next((str(item["message"]) for item in failed), "")
