"""What the operator adds to the cost of an attempt, against a client that only makes and deletes its Jobs.

    python -m benchmarks.operator_throughput [--attempts 1000] [--rounds 1] [--growth 5000]

A real API server, controller manager and scheduler; KWOK's pods last 1 s. Both arms run the same Jobs, 50 at
once, in the order floor, operator, operator, floor; a third process watches both alike and writes the
manifests that runners would have written. Its refill of a slot lasts from the event that shows a pod's end to
the one that shows the next Job, so most of it is the API server's. One more short run of each goes through a
proxy that sees the events on their way in and the requests on their way out, and counts the writes.
"""

import argparse
import asyncio
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from assay.adapters.kube import KubeClient, KubeError
from assay.adapters.kube_config import load_kube_config
from assay.api.evaluation_run import EvaluationRun
from assay.api.labels import RUN_UID
from assay.core.attempt_pod import Images, render_job
from assay.core.plan import RunPlan, make_plan
from assay.core.reconcile import name_of
from assay.core.record import AttemptKey
from assay.core.try_spec import make_try_spec
from benchmarks.simulated_cluster import client_of, cpu_seconds, enter, requests, resident_mb
from localcluster.components import simulated
from tests.fixtures.s3 import S3Server, running
from tests.operator_kit import builders
from tests.operator_kit.cluster import Cluster, until
from tests.operator_kit.exactness import completed
from tests.operator_kit.fates import Fate, Script
from tests.operator_kit.fault_proxy import Asked, FaultProxy
from tests.operator_kit.process import ASSAY_IMAGE, ROOT, Operator, Wishes, fresh_namespace
from tests.operator_kit.runners import Runners

WINDOW = 50
WARM_UP = 100
COUNTED = 200
SECONDS = 3600.0
AS_INSTALLED = {"ASSAY_STATUS_SECONDS": "3", "ASSAY_RESYNC_SECONDS": "10"}
"""The defaults again, which tests shorten."""
BY_THE_CLOCK = {"nodeSelector": {simulated.END: "clock"}}
FLOOR, OPERATOR = "floor", "operator"

MOST_CPU, MOST_OWN_CPU, MOST_GROWTH = 1.05, 7.0, 1.05
MOST_REQUESTS, MOST_WRITES, MOST_REFILL_MS = 2.2, 2.2, 50.0


@dataclass(frozen=True)
class Measured:
    """One arm's run of `attempts` attempts. CPU is in seconds per 1,000 attempts."""

    arm: str
    attempts: int
    rate: float
    cpu: dict[str, float]
    requests: float
    own_requests: float
    refills: list[float]
    resident_mb: float

    @property
    def all_cpu(self) -> float:
        return sum(self.cpu.values())

    @property
    def refill_p99(self) -> float:
        return statistics.quantiles(self.refills, n=100)[98]

    def row(self) -> str:
        slots = f"{statistics.median(self.refills):7.1f}{self.refill_p99:8.1f}"
        own = f"{self.cpu[self.arm]:9.1f}{self.own_requests:8.2f}"
        costs = f"{self.arm:10}{self.attempts:9}{self.rate:7.1f}{self.all_cpu:9.1f}{own}{self.requests:9.1f}"
        return f"{costs}{slots}{self.resident_mb:8.0f}"


HEAD = (
    f"{'arm':10}{'attempts':>9}{'1/s':>7}{'cpu/1000':>9}{'own cpu':>9}{'own rq':>8}{'all rq':>9}"
    f"{'refill':>7}{'p99 ms':>8}{'rss MB':>8}"
)


class Observer:
    """Watches one run's pods and Jobs, and notes when it saw what."""

    def __init__(self, cluster: Cluster) -> None:
        self._namespace = cluster.namespace
        self.ended: dict[str, float] = {}
        self.made: dict[str, float] = {}

    @asynccontextmanager
    async def watching(self, run_uid: str) -> AsyncIterator[None]:
        """While the block runs."""
        places = {
            "pods": f"/api/v1/namespaces/{self._namespace}/pods",
            "jobs": f"/apis/batch/v1/namespaces/{self._namespace}/jobs",
        }
        async with KubeClient(load_kube_config()) as client:
            tasks = [asyncio.create_task(self._follow(client, *place, run_uid)) for place in places.items()]
            yield
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _follow(self, client: KubeClient, kind: str, path: str, run_uid: str) -> None:
        version = "0"
        while True:
            try:
                async for event in client.watch(path, {"labelSelector": f"{RUN_UID}={run_uid}"}, version):
                    seen = _decode(event.object)
                    version = seen.metadata.resource_version
                    if kind == "jobs" and event.type == "ADDED":
                        self.made.setdefault(seen.metadata.name, time.perf_counter())
                    elif kind == "pods" and seen.status.phase in ("Succeeded", "Failed"):
                        self.ended.setdefault(seen.metadata.name, time.perf_counter())
            except KubeError:
                continue

    def refills(self, window: int) -> list[float]:
        """Milliseconds from each end of a pod to the Job that took its slot, in the order of both."""
        made = sorted(self.made.values())[window:]
        return [(job - end) * 1000 for end, job in zip(sorted(self.ended.values()), made, strict=False)]

    def rate(self) -> float:
        """Attempts a second, between a tenth and nine tenths of the run."""
        times = sorted(self.ended.values())
        low, high = times[len(times) // 10], times[len(times) * 9 // 10 - 1]
        return (len(times) * 9 // 10 - 1 - len(times) // 10) / (high - low)


class _Metadata(msgspec.Struct, rename="camel"):
    name: str = ""
    resource_version: str = ""


class _Status(msgspec.Struct):
    phase: str = ""


class _Seen(msgspec.Struct):
    metadata: _Metadata
    status: _Status = msgspec.field(default_factory=_Status)


class _Event(msgspec.Struct):
    object: _Seen


_decode = msgspec.json.Decoder(_Seen).decode
_decode_event = msgspec.json.Decoder(_Event).decode


@dataclass(frozen=True)
class Used:
    """What was used up to a moment."""

    cpu: dict[str, float]
    total_requests: float
    own_requests: float

    @classmethod
    async def now(cls, client: KubeClient, arm: str, processes: dict[str, int]) -> "Used":
        asked = await requests(client)
        return cls(cpu_seconds(processes), asked.total, asked.by_client.get(_client(arm), 0.0))


class Door:
    """Times of ends of pods as a client was told of them, and of the Jobs that it posted."""

    def __init__(self) -> None:
        self.writes: dict[str, float] = {}
        """Writes per attempt, by verb and resource."""
        self._ended: dict[str, float] = {}
        self._posted: list[float] = []
        self._rest = b""

    def take(self, asked: Asked, chunk: bytes) -> None:
        """A request came, or a piece of a watch was passed on."""
        now = time.perf_counter()
        if asked == Asked("POST", "jobs", watch=False):
            self._posted.append(now)
        elif asked == Asked("GET", "pods", watch=True) and chunk:
            *lines, self._rest = (self._rest + chunk).split(b"\n")
            for line in lines:
                pod = _decode_event(line).object
                if pod.status.phase in ("Succeeded", "Failed"):
                    self._ended.setdefault(pod.metadata.name, now)

    @property
    def refill_p99(self) -> float:
        """Milliseconds from the end of a pod to the Job for its slot, in the order of both."""
        pairs = zip(sorted(self._ended.values()), self._posted[WINDOW:], strict=False)
        return statistics.quantiles([(posted - ended) * 1000 for ended, posted in pairs], n=100)[98]


class Bench:
    """Runs the arms, each in a namespace of its own."""

    def __init__(self, s3: S3Server, folder: Path) -> None:
        self._s3, self._folder = s3, folder

    async def run(self, arm: str, attempts: int) -> Measured:
        """One run of an arm."""
        async with fresh_namespace(self._s3) as cluster:
            kubeconfig = await client_of(cluster.client, _client(arm), self._folder)
            runners = Runners(cluster, sound(attempts), told=False)
            async with runners.working():
                if arm == FLOOR:
                    return await self._floor(cluster, attempts, kubeconfig)
                return await self._operator(cluster, attempts, kubeconfig)

    async def at_the_door(self, arm: str, attempts: int) -> Door:
        """What a proxy between an arm and the API server sees."""
        door = Door()
        proxy = FaultProxy(tell=door.take)
        run = self._floor if arm == FLOOR else self._operator
        async with fresh_namespace(self._s3) as cluster, proxy.serving(self._folder) as kubeconfig:
            runners = Runners(cluster, sound(attempts), told=False)
            async with runners.working():
                await run(cluster, attempts, kubeconfig)
        found = {f"{one.method} {one.resource}": count / attempts for one, count in proxy.writes.items()}
        door.writes = {what: count for what, count in found.items() if not what.endswith("leases")}
        return door

    async def _operator(self, cluster: Cluster, attempts: int, kubeconfig: Path) -> Measured:
        operator, observer = Operator(cluster, self._s3, self._folder / "operator.log"), Observer(cluster)
        async with operator.running(KUBECONFIG=str(kubeconfig), **AS_INSTALLED) as process:
            await until("the operator works", operator.works)
            processes = {OPERATOR: process.pid}
            before = await Used.now(cluster.client, OPERATOR, processes)
            run = await wish(cluster, attempts)
            async with observer.watching(run.metadata.uid):
                await completed(cluster, seconds=SECONDS)
                await quiet(cluster)
            after = await Used.now(cluster.client, OPERATOR, processes)
            return measured(OPERATOR, attempts, before, after, observer, resident_mb(process.pid))

    async def _floor(self, cluster: Cluster, attempts: int, kubeconfig: Path) -> Measured:
        run, observer = await wish(cluster, attempts), Observer(cluster)
        gateway = await cluster.client.get(f"/api/v1/namespaces/{cluster.namespace}/services/assay-gateway")
        jobs = b"".join(bodies(run, plan_of(run, attempts), gateway["spec"]["clusterIP"]))
        before, children = (
            await Used.now(cluster.client, FLOOR, {}),
            resource.getrusage(resource.RUSAGE_CHILDREN),
        )
        command = ("-m", "benchmarks.minimal_client", cluster.namespace, run.metadata.uid, str(WINDOW))
        async with observer.watching(run.metadata.uid):
            process = await asyncio.create_subprocess_exec(
                sys.executable, *command, cwd=ROOT, stdin=asyncio.subprocess.PIPE,
                env=os.environ | {"KUBECONFIG": str(kubeconfig)},
            )  # fmt: skip
            await process.communicate(jobs)
            await quiet(cluster)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        after = await Used.now(cluster.client, FLOOR, {})
        before.cpu[FLOOR] = children.ru_utime + children.ru_stime
        after.cpu[FLOOR] = used.ru_utime + used.ru_stime
        return measured(FLOOR, attempts, before, after, observer, 0.0)


def measured(
    arm: str, attempts: int, before: Used, after: Used, observer: Observer, resident: float
) -> Measured:
    """What one run took."""
    return Measured(
        arm=arm,
        attempts=attempts,
        rate=observer.rate(),
        cpu={name: (used - before.cpu[name]) / attempts * 1000 for name, used in after.cpu.items()},
        requests=(after.total_requests - before.total_requests) / attempts,
        own_requests=(after.own_requests - before.own_requests) / attempts,
        refills=observer.refills(WINDOW),
        resident_mb=resident,
    )


def sound(attempts: int) -> Script:
    """A script in which every attempt ends well: the floor knows no retries."""
    return Script(
        {AttemptKey("ledger", f"task-{number}", "oracle", 0): Fate.SOUND for number in range(attempts)}
    )


async def wish(cluster: Cluster, attempts: int) -> EvaluationRun:
    """A ledger, a variant and a run over them."""
    wishes = Wishes(cluster)
    await wishes.ledger(tasks=attempts, where="s3")
    await wishes.variant()
    return EvaluationRun.parse(await wishes.run(parallelism=WINDOW, placement=BY_THE_CLOCK))


def plan_of(run: EvaluationRun, attempts: int) -> RunPlan:
    """The plan that the operator would compute."""
    tasks = [builders.task(f"task-{number}") for number in range(attempts)]
    return make_plan(run.spec, run.metadata.uid, [builders.run_ledger(tasks=tasks)], [builders.run_variant()])


def bodies(run: EvaluationRun, plan: RunPlan, gateway: str) -> Iterator[bytes]:
    """The Jobs that the operator would make, one a line."""
    images = Images(ASSAY_IMAGE, ASSAY_IMAGE)
    for key in plan.attempts:
        spec = make_try_spec(run, plan, key, 1, name_of(run.metadata.uid, key, 1))
        yield msgspec.json.encode(render_job(run, plan, spec, images, gateway)) + b"\n"


async def quiet(cluster: Cluster) -> None:
    """Until the garbage collector has taken the last pod: its work is part of an attempt."""
    paths = (
        f"/apis/batch/v1/namespaces/{cluster.namespace}/jobs",
        f"/api/v1/namespaces/{cluster.namespace}/pods",
    )

    async def none() -> bool:
        return not any([(await cluster.client.get(path, {"limit": "1"}))["items"] for path in paths])

    await until("no Job and no pod is left", none)


def _client(arm: str) -> str:
    return f"bench-{arm}"


def report(arms: list[Measured], doors: dict[str, Door], grown: Measured | None) -> list[str]:
    """Print medians and gates; the gates that were missed."""
    floor, own = ([one for one in arms if one.arm == arm] for arm in (FLOOR, OPERATOR))

    def middle(found: list[Measured], what: Callable[[Measured], float]) -> float:
        return statistics.median(map(what, found))

    cpu = middle(own, lambda one: one.all_cpu)
    writes = doors[OPERATOR].writes
    gates = [
        ("CPU of everything / floor's", cpu / middle(floor, lambda one: one.all_cpu), MOST_CPU),
        ("operator's CPU s per 1,000", middle(own, lambda one: one.cpu[OPERATOR]), MOST_OWN_CPU),
        ("operator's requests per attempt", middle(own, lambda one: one.own_requests), MOST_REQUESTS),
        ("operator's writes per attempt", sum(writes.values()), MOST_WRITES),
        ("end of a pod to next POST, p99, ms", doors[OPERATOR].refill_p99, MOST_REFILL_MS),
    ]
    if grown:
        gates.append(
            (f"CPU per attempt at {grown.attempts} / at {own[0].attempts}", grown.all_cpu / cpu, MOST_GROWTH)
        )
    print("parts, CPU s per 1,000:")
    for arm in (floor[-1], own[-1]):
        print(f"  {arm.arm}: " + ", ".join(f"{name} {used:.1f}" for name, used in sorted(arm.cpu.items())))
    print("writes per attempt: " + ", ".join(f"{what} {count:.2f}" for what, count in sorted(writes.items())))
    print(f"end of a pod to next POST, p99, ms: floor {doors[FLOOR].refill_p99:.1f}")
    for name, value, most in gates:
        print(f"{name:42}{value:8.2f}  at most {most:g}{'' if value <= most else '  MISSED'}")
    return [name for name, value, most in gates if value > most]


async def measure(arguments: argparse.Namespace) -> list[str]:
    """Run all arms; the gates that were missed."""
    with tempfile.TemporaryDirectory() as folder, running(Path(folder) / "s3") as s3:
        bench = Bench(s3, Path(folder))
        await bench.run(OPERATOR, WARM_UP)
        print(HEAD, flush=True)
        arms = []
        for arm in (FLOOR, OPERATOR, OPERATOR, FLOOR) * arguments.rounds:
            arms.append(await bench.run(arm, arguments.attempts))
            print(arms[-1].row(), flush=True)
        grown = await bench.run(OPERATOR, arguments.growth) if arguments.growth else None
        if grown:
            print(grown.row(), flush=True)
        few = min(COUNTED, arguments.attempts)
        doors = {arm: await bench.at_the_door(arm, few) for arm in (FLOOR, OPERATOR)}
        return report(arms, doors, grown)


def main() -> int:
    """Print the table; 1 if a gate is missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--attempts", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=1, help="of floor, operator, operator, floor")
    parser.add_argument("--growth", type=int, default=5000, help="attempts of one more run; 0 = none")
    arguments = parser.parse_args()
    enter("operator_throughput")
    missed = asyncio.run(measure(arguments))
    print(f"missed: {', '.join(missed)}" if missed else "the bars hold")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
