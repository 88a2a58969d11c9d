"""Tests' own hand on a real API server: objects in and out, pods made to look as if they had run."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from assay.adapters.kube import KubeClient, KubeRefused
from assay.adapters.s3 import S3Store
from assay.api.labels import RUN_UID, TRY_SPEC
from assay.api.outcome import OutcomeClass
from assay.api.tryspec import TrySpec
from assay.handlers.resources import collection_path
from tests.operator_kit.evidence import manifest_object

Object = dict[str, Any]
WAIT_SECONDS = 60.0


async def until[T](what: str, check: Callable[[], Awaitable[T | None]], seconds: float = WAIT_SECONDS) -> T:
    """The first true answer of `check`, asked again and again. Fails with `what`."""
    end = time.monotonic() + seconds
    while True:
        found = await check()
        if found:
            return found
        assert time.monotonic() < end, f"not in {seconds:.0f} s: {what}"
        await asyncio.sleep(0.1)


@dataclass(frozen=True)
class Cluster:
    """One namespace of a real API server, and the bucket of its runs."""

    client: KubeClient
    namespace: str
    store: S3Store
    bucket: str

    async def create(self, plural: str, name: str, spec: Mapping[str, Any]) -> Object:
        kinds = {"ledgers": "Ledger", "agentvariants": "AgentVariant", "evaluationruns": "EvaluationRun"}
        body = {
            "apiVersion": "assay.dev/v1alpha1",
            "kind": kinds[plural],
            "metadata": {"name": name},
            "spec": dict(spec),
        }
        return await self.client.create(collection_path(plural, self.namespace), body)

    async def get(self, plural: str, name: str) -> Object:
        return await self.client.get(f"{collection_path(plural, self.namespace)}/{name}")

    async def change(self, plural: str, name: str, spec: Mapping[str, Any]) -> None:
        await self.client.merge(f"{collection_path(plural, self.namespace)}/{name}", {"spec": dict(spec)})

    async def delete(self, plural: str, name: str) -> None:
        path = f"{collection_path(plural, self.namespace)}/{name}"
        await self.client.request("DELETE", path, {"propagationPolicy": "Background"})

    async def jobs(self, run: str) -> list[Object]:
        """Jobs of a run, oldest first."""
        return await self._of_run(f"/apis/batch/v1/namespaces/{self.namespace}/jobs", run)

    async def pods(self, run: str) -> list[Object]:
        """Pods of a run, oldest first."""
        return await self._of_run(f"/api/v1/namespaces/{self.namespace}/pods", run)

    async def _of_run(self, path: str, run: str) -> list[Object]:
        uid = (await self.get("evaluationruns", run))["metadata"]["uid"]
        found = await self.client.get(path, {"labelSelector": f"{RUN_UID}={uid}"})
        items: list[Object] = found["items"]
        return sorted(items, key=lambda one: str(one["metadata"]["creationTimestamp"]))

    async def condition(
        self, plural: str, name: str, type_: str, status: str, reason: str | None = None
    ) -> Object:
        """The condition, once it has that status (and reason)."""

        async def check() -> Object | None:
            body = await self.get(plural, name)
            for one in body.get("status", {}).get("conditions", []):
                if one["type"] == type_ and one["status"] == status and reason in (None, one["reason"]):
                    return dict(one)
            return None

        return await until(f"{plural} {name} {type_}={status} {reason or ''}", check)

    async def live_pods(self, run: str, count: int) -> list[Object]:
        """The run's pods that have not ended, once there are that many."""

        async def check() -> list[Object] | None:
            pods = [one for one in await self.pods(run) if one["status"]["phase"] in ("Pending", "Running")]
            return pods if len(pods) >= count else None

        return await until(f"{count} live pods of {run}", check)

    async def scheduled(self, pod: Object) -> None:
        """Says that a node took the pod, after the scheduler, where there is one, has said its last word."""
        path = self._pod_path(pod)

        async def refused() -> bool:
            found = await self.client.get(path)
            return any(one["type"] == "PodScheduled" for one in found["status"].get("conditions", ()))

        if (await self.client.get("/api/v1/nodes"))["items"]:
            await until("the scheduler's word on the pod", refused)
        taken = {"type": "PodScheduled", "status": "True"}
        await self.client.merge(f"{path}/status", {"status": {"conditions": [taken]}})

    async def finish(
        self,
        pod: Object,
        outcome: OutcomeClass = OutcomeClass.GRADED,
        reward: float | None = 1.0,
        *,
        with_manifest: bool = True,
        **result: Any,
    ) -> None:
        """What a runner and a kubelet do at the end of a try: the manifest, then the pod's last status."""
        if with_manifest:
            await asyncio.to_thread(self._put_manifest, pod, outcome, reward, result)
        await self.end(pod)

    async def end(self, pod: Object, exit_code: int = 0, reason: str = "", **status: Any) -> None:
        """The pod's last status, all containers ended, the environment with `exit_code`."""
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

        def ended(name: str, code: int, why: str) -> Object:
            state = {"exitCode": code, "reason": why, "startedAt": now, "finishedAt": now}
            return {
                "name": name,
                "image": "x",
                "imageID": f"docker.io/x@sha256:{'b' * 64}",
                "ready": False,
                "restartCount": 0,
                "state": {"terminated": state},
            }

        word = reason or ("Error" if exit_code else "Completed")
        init = [one["name"] for one in pod["spec"]["initContainers"]]
        main = [one["name"] for one in pod["spec"]["containers"]]

        def statuses(names: list[str]) -> list[Object]:
            return [
                ended(name, exit_code, word) if name == "environment" else ended(name, 0, "Completed")
                for name in names
            ]

        body = {
            "status": {
                "phase": "Failed" if exit_code or status else "Succeeded",
                "initContainerStatuses": statuses(init),
                "containerStatuses": statuses(main),
            }
            | status
        }
        await self.client.merge(f"{self._pod_path(pod)}/status", body)

    async def delete_job(self, name: str) -> None:
        path = f"/apis/batch/v1/namespaces/{self.namespace}/jobs/{name}"
        await self.client.request("DELETE", path, {"propagationPolicy": "Background"})

    async def gone(self, path: str) -> None:
        async def check() -> bool:
            try:
                await self.client.get(path)
            except KubeRefused as error:
                return error.status == 404
            return False

        await until(f"{path} is gone", check)

    def _pod_path(self, pod: Object) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods/{pod['metadata']['name']}"

    def _put_manifest(
        self, pod: Object, outcome: OutcomeClass, reward: float | None, result: Mapping[str, Any]
    ) -> None:
        spec = try_spec(pod)
        key, content = manifest_object(spec, pod["metadata"]["uid"], outcome, reward, **result)
        self.store.put_bytes(spec.storage.bucket, key, content)


def try_spec(pod: Object) -> TrySpec:
    """The try spec that a pod carries."""
    return TrySpec.model_validate(json.loads(pod["metadata"]["annotations"][TRY_SPEC]))
