"""The floor of the operator's throughput: a client that makes and deletes Jobs, and knows nothing else.

    python -m benchmarks.minimal_client NAMESPACE RUN-UID WINDOW < jobs

`jobs` are one Job a line, ready to be posted. On the end of a pod the next Job is posted and the ended one
deleted. Ends when all have run. No retries, no results, no status: what any operator does comes on top.
"""

import asyncio
import sys
from typing import cast

import msgspec

from assay.adapters.kube import JSON, KubeClient, KubeError
from assay.adapters.kube_config import load_kube_config
from assay.api import labels


class _Metadata(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    labels: dict[str, str] = {}


class _Status(msgspec.Struct):
    phase: str = ""


class _Pod(msgspec.Struct):
    metadata: _Metadata
    status: _Status = msgspec.field(default_factory=_Status)


_decode = msgspec.json.Decoder(_Pod).decode


class MinimalClient:
    """Runs all Jobs, at most `window` at once."""

    def __init__(self, client: KubeClient, namespace: str, window: int, bodies: list[bytes]) -> None:
        self._client, self._window = client, window
        self._jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
        self._pods = f"/api/v1/namespaces/{namespace}/pods"
        self._waiting, self._count = iter(bodies), len(bodies)
        self._ended: set[str] = set()
        self._tasks: set[asyncio.Task[bytes]] = set()
        self._done = asyncio.Event()

    async def run(self, run_uid: str) -> None:
        """Until every pod has ended and every request is answered."""
        watching = asyncio.create_task(self._follow({"labelSelector": f"{labels.RUN_UID}={run_uid}"}))
        for _ in range(min(self._window, self._count)):
            self._post_next()
        await self._done.wait()
        while self._tasks:
            await asyncio.gather(*self._tasks)
        watching.cancel()

    async def _follow(self, selector: dict[str, str]) -> None:
        version = "0"
        while True:
            try:
                async for event in self._client.watch(self._pods, selector, version):
                    pod = _decode(event.object)
                    version = pod.metadata.resource_version
                    if pod.status.phase in ("Succeeded", "Failed"):
                        self._take_end(pod.metadata.labels["job-name"])
            except KubeError:
                continue  # the server ends watches at will

    def _take_end(self, job: str) -> None:
        if job in self._ended:
            return
        self._ended.add(job)
        self._post_next()
        self._spawn("DELETE", f"{self._jobs}/{job}", {"propagationPolicy": "Background"})
        if len(self._ended) == self._count:
            self._done.set()

    def _post_next(self) -> None:
        if (body := next(self._waiting, None)) is not None:
            self._spawn("POST", self._jobs, cast(JSON, msgspec.Raw(body)))

    def _spawn(self, method: str, path: str, body: JSON) -> None:
        task = asyncio.create_task(self._client.request(method, path, body))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def main(namespace: str, run_uid: str, window: int, bodies: list[bytes]) -> None:
    """Run the Jobs against the API server of KUBECONFIG."""
    async with KubeClient(load_kube_config()) as client:
        await MinimalClient(client, namespace, window, bodies).run(run_uid)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.stdin.buffer.read().splitlines()))
