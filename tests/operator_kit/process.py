"""The operator as a process, a namespace for it, and what a user puts there."""

import asyncio
import os
import sys
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from assay.adapters.kube import KubeClient
from assay.adapters.kube_config import load_kube_config
from assay.adapters.s3 import S3Store
from assay.api.ledgerfile import Plan
from assay.core.canonical import digest_of_bytes
from assay.core.ledger import render_ledger
from tests.fixtures.s3 import S3Server, free_port
from tests.operator_kit.builders import header, task
from tests.operator_kit.cluster import Cluster, Object

ROOT = Path(__file__).resolve().parents[2]
ASSAY_IMAGE = f"assay.test/runner@sha256:{'c' * 64}"
UNSCHEDULABLE = {"nodeSelector": {"assay.dev/simulated": "true"}}


@asynccontextmanager
async def fresh_namespace(s3: S3Server) -> AsyncIterator[Cluster]:
    """A namespace of its own with what the chart would put there, and an empty bucket."""
    name = f"operator-{uuid.uuid4().hex[:8]}"
    store = S3Store(s3.settings)
    store.client.create_bucket(Bucket=name)
    async with KubeClient(load_kube_config()) as client:
        await client.create("/api/v1/namespaces", {"metadata": {"name": name}})
        base = f"/api/v1/namespaces/{name}"
        await client.create(f"{base}/serviceaccounts", {"metadata": {"name": "assay-attempt"}})
        await client.create(
            f"{base}/services",
            {"metadata": {"name": "assay-gateway"}, "spec": {"ports": [{"port": 8080}]}},
        )
        yield Cluster(client, name, store, name)
        await client.request("DELETE", f"/api/v1/namespaces/{name}")
    store.close()


@dataclass
class Operator:
    """Starts operator processes. Each has the same identity, as restarts of one pod's container have."""

    cluster: Cluster
    s3: S3Server
    log: Path
    ports: dict[str, int] = field(default_factory=dict)
    processes: list[asyncio.subprocess.Process] = field(default_factory=list)

    @asynccontextmanager
    async def running(self, **changes: str) -> AsyncIterator[asyncio.subprocess.Process]:
        """A started operator; it is told to stop at the end."""
        process = await self.start(**changes)
        try:
            yield process
        finally:
            if process.returncode is None:
                process.terminate()
                await process.wait()

    async def start(self, **changes: str) -> asyncio.subprocess.Process:
        self.ports = {name: free_port() for name in ("ASSAY_HEALTH_PORT", "ASSAY_METRICS_PORT")}
        environment = {
            **os.environ,
            **self.s3.environment,
            "ASSAY_RUN_NAMESPACES": self.cluster.namespace,
            "POD_NAMESPACE": self.cluster.namespace,
            "POD_UID": "the-operator",
            "ASSAY_RUNNER_IMAGE": ASSAY_IMAGE,
            "ASSAY_SANDBOXD_IMAGE": ASSAY_IMAGE,
            "ASSAY_LISTEN": "127.0.0.1",
            "ASSAY_STATUS_SECONDS": "0.5",
            "ASSAY_RESYNC_SECONDS": "2",
            "PYTHONWARNINGS": "default",
            **{name: str(port) for name, port in self.ports.items()},
            **changes,
        }
        with self.log.open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "assay.handlers", env=environment, stderr=log, stdout=log, cwd=ROOT
            )
        self.processes.append(process)
        return process

    async def metric(self, name: str, label: str = "") -> float:
        """Sum of the series of that name (with that label) at the newest process; 0 before it answers."""
        url = f"http://127.0.0.1:{self.ports['ASSAY_METRICS_PORT']}/metrics"
        try:
            async with aiohttp.ClientSession() as session, session.get(url) as answer:
                lines = (await answer.text()).splitlines()
        except aiohttp.ClientError:
            return 0.0
        found = [one for one in lines if one.startswith((f"{name} ", f"{name}{{", name)) and label in one]
        return sum(float(one.rsplit(" ", 1)[1]) for one in found)

    async def works(self) -> bool:
        """Whether the newest process holds the Lease and has seen everything that exists."""
        return await self.metric("assay_watch_age_seconds") > 0

    async def end(self) -> None:
        """End whatever a test left running."""
        for process in self.processes:
            if process.returncode is None:
                process.kill()
            await process.wait()


@dataclass
class Wishes:
    """Puts ledgers, variants and runs into the cluster."""

    cluster: Cluster

    async def ledger(
        self,
        name: str = "ledger",
        tasks: int = 1,
        *,
        digest: str | None = None,
        plan: Plan | None = None,
        where: str = "configMap",
    ) -> None:
        content = render_ledger(header(tasks, plan), [task(f"task-{number}") for number in range(tasks)])
        source: dict[str, Any] = {"configMap": {"name": name}}
        if where == "configMap":
            await self.cluster.client.create(
                f"/api/v1/namespaces/{self.cluster.namespace}/configmaps",
                {"metadata": {"name": name}, "data": {"ledger.jsonl": content.decode()}},
            )
        else:
            key = f"ledgers/{name}.jsonl"
            await asyncio.to_thread(self.cluster.store.put_bytes, self.cluster.bucket, key, content)
            source = {"s3": {"bucket": self.cluster.bucket, "key": key}}
        spec = {
            "benchmark": {"name": "tests", "version": "1"},
            "digest": digest or digest_of_bytes(content),
            "source": source,
        }
        await self.cluster.create("ledgers", name, spec)

    async def variant(self, name: str = "oracle", agent: str = "oracle") -> None:
        await self.cluster.create("agentvariants", name, {"displayName": name, "agent": {"name": agent}})

    async def run(self, name: str = "run", **spec: Any) -> Object:
        return await self.cluster.create(
            "evaluationruns",
            name,
            {
                "ledgers": [{"name": "ledger"}],
                "variants": [{"name": "oracle"}],
                "storage": {"s3": {"bucket": self.cluster.bucket}},
                "placement": UNSCHEDULABLE,
            }
            | spec,
        )
