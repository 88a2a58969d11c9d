"""What an attempt costs beside its trial: a no-op attempt's pod, made to ended, minus Harbor's trial time.

    python -m localcluster shell -- python -m benchmarks.attempt_overhead [--attempts 20]

The floor is a Job of the same containers that do nothing, in the same minutes: what the kubelet and the Job
controller take for an init container, a native sidecar, an environment and a verifier. A trial runs from the
environment to the verifier's end, and the kubelet's change from one to the other falls into it; so the floor
too leaves out what lies between the environment's first and the verifier's last moment, by the node's clock.
All are timed from the same watch, one at a time, in alternating rounds.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from demo.install import RUN_NAMESPACE, install
from demo.kube import JOBS, PODS, Kube, Object
from demo.target import choose
from tests.e2e.bench import Bench, unique
from tests.e2e.tasks import Task

ROUNDS = 4
SECONDS = 600
FLOOR = "assay.dev/benchmark"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--attempts", type=int, default=20, help="attempts, and Jobs of the floor")
    each = max(1, parser.parse_args().attempts // ROUNDS)
    target = choose()
    install(target)
    with Kube(target.kubeconfig) as kube, tempfile.TemporaryDirectory() as scratch:
        bench = Bench.on(target, kube, Path(scratch))
        ledger, nop = bench.ledger(Task("overhead")), bench.variant("nop")
        overheads: list[float] = []
        floors: list[EmptyPod] = []
        for _ in range(ROUNDS):
            overheads += attempts(bench, ledger, nop, each)
            floors += empty_jobs(bench, each)
    print(f"{'seconds':32}{'min':>7}{'median':>8}{'max':>7}{'n':>5}")
    row("attempt's pod minus its trial", overheads)
    row("the same of empty containers", [one.seconds - one.between for one in floors])
    row("  with what a trial covers", [one.seconds for one in floors])


def row(name: str, values: list[float]) -> None:
    print(f"{name:32}{min(values):7.1f}{statistics.median(values):8.1f}{max(values):7.1f}{len(values):5}")


def attempts(bench: Bench, ledger: str, variant: str, number: int) -> list[float]:
    """Overheads in seconds of `number` attempts that change nothing, one after the other."""
    run = bench.run(ledger, variant, repetitions=number, parallelism=1)
    seconds = {name: wall for name, wall, _ in job_seconds(bench.kube, run.selector, number)}
    run.completed()
    trials = {one.manifest.identity.job_name: one.manifest.result.seconds.trial for one in run.evidence()}
    return [wall - trial for name, wall in seconds.items() if (trial := trials[name]) is not None]


@dataclass(frozen=True)
class EmptyPod:
    """Seconds of a pod of empty containers, and those from its environment's start to its verifier's end."""

    seconds: float
    between: float


def empty_jobs(bench: Bench, number: int) -> list[EmptyPod]:
    """`number` Jobs of empty containers, one after the other."""
    found = []
    for _ in range(number):
        name = unique("floor")
        bench.kube.create(JOBS, RUN_NAMESPACE, empty_job(name, bench))
        found += [
            EmptyPod(seconds, moment(pod, "verifier") - moment(pod, "environment"))
            for _, seconds, pod in job_seconds(bench.kube, f"{FLOOR}={name}", 1)
        ]
        bench.kube.delete(JOBS, RUN_NAMESPACE, name)
    return found


def moment(pod: Object, container: str) -> float:
    """When an empty container ran, in seconds since 1970, by its own word."""
    status = pod["status"]
    every = (*status["initContainerStatuses"], *status["containerStatuses"])
    (own,) = (one for one in every if one["name"] == container)
    return float(own["state"]["terminated"]["message"])


def job_seconds(kube: Kube, selector: str, number: int) -> Iterator[tuple[str, float, Object]]:
    """The first `number` Jobs whose pod ends: its name, seconds since the watch first showed it, and the pod.

    The pod's end is taken and not the Job's: the operator deletes a Job as soon as its result is recorded.
    """
    seen: dict[str, float] = {}
    done: set[str] = set()
    for pod in kube.changes(PODS, RUN_NAMESPACE, seconds=SECONDS, selector=selector):
        if pod is None or (name := pod["metadata"]["labels"]["job-name"]) in done:
            continue
        began = seen.setdefault(name, time.monotonic())
        if pod["status"]["phase"] in ("Succeeded", "Failed"):
            done.add(name)
            yield name, time.monotonic() - began, pod
        if len(done) == number:
            return
    raise SystemExit(f"only {len(done)} of {number} pods ended within {SECONDS} s")


def empty_job(name: str, bench: Bench) -> Object:
    """The containers of an attempt in separate mode. Each has nothing to do and ends at once."""

    def container(part: str, script: str = 'printf %s "$EPOCHREALTIME" > /dev/termination-log') -> Object:
        return {"name": part, "image": bench.task_image, "command": ["bash", "-c", script]}

    runner = container("runner", 'trap "exit 0" TERM; while :; do sleep 60 & wait; done')
    containers = {
        "initContainers": [
            container("inject"),
            {**runner, "restartPolicy": "Always"},
            container("environment"),
        ],
        "containers": [container("verifier")],
    }
    template = {
        "metadata": {"labels": {FLOOR: name}},
        "spec": {"restartPolicy": "Never", "automountServiceAccountToken": False, **containers},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": {FLOOR: name}},
        "spec": {"backoffLimit": 0, "template": template},
    }


if __name__ == "__main__":
    main()
