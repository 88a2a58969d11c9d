"""Stands for the runners of simulated pods: writes each one's manifest, then tells KWOK how the pod ends."""

import asyncio
import json
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import msgspec

from assay.adapters.kube import KubeClient, KubeRefused, KubeUnavailable
from assay.adapters.kube_config import load_kube_config
from assay.adapters.kube_decode import Meta
from assay.adapters.list_watch import ListWatch
from assay.adapters.s3 import AsyncS3Store, StorageError
from assay.api import labels
from assay.api.evidence import ARTIFACTS, EvidenceFile, TokenCounts
from assay.api.tryspec import TrySpec
from assay.core.record import AttemptKey
from localcluster.components import simulated
from tests.operator_kit.builders import DIGEST
from tests.operator_kit.cluster import Cluster
from tests.operator_kit.evidence import manifest_object
from tests.operator_kit.fates import JOB_LOST, End, Script

TOLD = {"nodeSelector": {simulated.END: "told"}}
"""`spec.placement` of a run whose pods end when they are told."""
AGAIN_SECONDS = 0.2
LONGEST_WORK_SECONDS = 1.0


class _Status(msgspec.Struct):
    phase: str = ""


class _Pod(msgspec.Struct):
    metadata: Meta
    status: _Status = msgspec.field(default_factory=_Status)


_decode_pod = msgspec.json.Decoder(_Pod).decode


@dataclass(frozen=True)
class SeenPod:
    """What of a pod matters here."""

    uid: str
    name: str
    job: str
    phase: str
    try_spec: str


class Runners:
    """Runs every pod of a namespace by the script, each pod once.

    Where pods end by the clock, not `told`, the manifest is all there is to do, and it is done at once.
    """

    def __init__(self, cluster: Cluster, script: Script, *, told: bool = True) -> None:
        self.cluster, self.script, self._told = cluster, script, told
        self.ran: Counter[tuple[AttemptKey, int]] = Counter()
        """Jobs whose pod ran, by attempt and try number."""
        self.repeated: Counter[tuple[AttemptKey, int]] = Counter()
        """Pods that ran beside the first one of their Job."""
        self._first: dict[str, str] = {}
        """UID of the first pod of each Job."""
        self.ended = 0
        self.most_live = 0
        """The most Jobs that had their first pod at once and not ended."""
        self._live: set[str] = set()
        self._synced = asyncio.Event()
        self._seen: set[str] = set()
        self._begin: Callable[[SeenPod], object] = lambda _: None
        self._store = AsyncS3Store(cluster.store.settings)

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Works for as long as the block runs; an error of its own ends the block."""
        pods = f"/api/v1/namespaces/{self.cluster.namespace}/pods"
        async with KubeClient(load_kube_config()) as client, asyncio.TaskGroup() as group:
            self._begin = lambda pod: group.create_task(self._run(client, pod))
            watch = ListWatch(
                client, pods, f"{labels.ROLE}={labels.ROLE_ATTEMPT}", _view, self._saw, self._gone
            )
            self._synced = watch.synced
            watching = group.create_task(watch.run())
            yield
            watching.cancel()
        await self._store.close()

    def _gone(self, pod: SeenPod) -> None:
        self._live.discard(pod.uid)

    def _saw(self, pod: SeenPod) -> None:
        first = self._first.setdefault(pod.job, pod.uid) == pod.uid
        if pod.phase in ("Succeeded", "Failed"):
            self._live.discard(pod.uid)
        elif first:
            self._live.add(pod.uid)
        if self._synced.is_set():
            # In the middle of a new list, pods that are gone would be counted beside those in their place.
            self.most_live = max(self.most_live, len(self._live))
        if pod.phase == "Running" and pod.uid not in self._seen:
            self._seen.add(pod.uid)
            self._begin(pod)

    async def _run(self, client: KubeClient, pod: SeenPod) -> None:
        spec = TrySpec.model_validate(json.loads(pod.try_spec))
        key, number = AttemptKey.of(spec.identity), spec.identity.try_number
        first = self._first[pod.job] == pod.uid
        (self.ran if first else self.repeated)[key, number] += 1
        if self._told:
            await asyncio.sleep(random.Random(pod.uid).uniform(0, LONGEST_WORK_SECONDS))  # its work
        if not first and self.script.end(key, number) is JOB_LOST:
            self.script.made_again.add(key)
        end = self.script.end(key, number)
        if end.manifest:
            await self._write(spec, pod.uid, end)
        if end.loses:
            await self._lose(client, pod, end)
        elif self._told:
            await self._tell(client, pod, end)
        self.ended += 1

    async def _write(self, spec: TrySpec, pod_uid: str, end: End) -> None:
        key, number = AttemptKey.of(spec.identity), spec.identity.try_number
        tokens = TokenCounts(input=self.script.tokens(key, number), output=0)
        files = [EvidenceFile(path=ARTIFACTS, size=1, sha256=DIGEST)] if end.artifacts else []
        result: dict[str, Any] = {"tokens": tokens, "reason": "by the script", "graded_as": end.graded_as}
        reward = self.script.reward(key) if end.graded else None
        place, content = manifest_object(spec, pod_uid, end.outcome, reward, files, **result)
        while True:
            try:
                await self._store.put_bytes(spec.storage.bucket, place, content)
                return
            except StorageError:
                await asyncio.sleep(AGAIN_SECONDS)  # as a runner does while the store is away

    async def _lose(self, client: KubeClient, pod: SeenPod, end: End) -> None:
        """What a person does who deletes the Job, or the pod with --force."""
        batch, core = (
            f"/{group}/namespaces/{self.cluster.namespace}" for group in ("apis/batch/v1", "api/v1")
        )
        how: dict[str, Any]
        if end.loses == "Job":
            path, how = f"{batch}/jobs/{pod.job}", {"propagationPolicy": "Background"}
        else:
            path, how = f"{core}/pods/{pod.name}", {"gracePeriodSeconds": 0}
        await self._until_done(lambda: client.request("DELETE", path, how))

    async def _tell(self, client: KubeClient, pod: SeenPod, end: End) -> None:
        prefix = simulated.END.rpartition("/")[0]
        told = {simulated.END: str(end.exit_code)}
        if end.reason:
            told[f"{prefix}/reason"] = end.reason
        if end.disruption:
            told[f"{prefix}/disruption"] = end.disruption
        path = f"/api/v1/namespaces/{self.cluster.namespace}/pods/{pod.name}"
        await self._until_done(lambda: client.merge(path, {"metadata": {"annotations": told}}))

    async def _until_done(self, ask: Callable[[], Awaitable[object]]) -> None:
        while True:
            try:
                await ask()
                return
            except KubeUnavailable:
                await asyncio.sleep(AGAIN_SECONDS)
            except KubeRefused as error:
                if error.status != 404:
                    raise
                return


def _view(raw: msgspec.Raw) -> tuple[Meta, SeenPod]:
    pod = _decode_pod(raw)
    meta = pod.metadata
    spec = meta.annotations.get(labels.TRY_SPEC, "")
    job = meta.labels.get("batch.kubernetes.io/job-name", "")
    return meta, SeenPod(meta.uid, meta.name, job, pod.status.phase, spec)
