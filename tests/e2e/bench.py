"""The cluster in the hands of a test: make a ledger, a variant and a run as a user would, then watch."""

import asyncio
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from assay.adapters.journal_store import LAST_EPOCH, JournalStore
from assay.adapters.s3 import AsyncS3Store, S3Settings, S3Store
from assay.api.evaluation_run import EvaluationRun
from assay.core.names import journal_prefix
from assay.core.record import TryRecord
from assay.core.try_spec import storage_of
from demo.commands import apply, run
from demo.install import RUN_NAMESPACE, built_images
from demo.kube import EVENTS, JOBS, LEDGERS, PODS, RUNS, Kube, Object, WaitTimeout, condition, has_condition
from demo.materials import publish_ledger
from demo.target import Target
from tests.e2e import evidence
from tests.e2e.tasks import Task

SECONDS = 180
"""How long a change may take on two busy cores before a test gives up; nothing waits for it to pass."""

RESTRICTED_NAMESPACE = "evals-restricted"
"""Its pod security refuses attempt pods."""
OPEN_NAMESPACE = "evals-open"
"""Its network policies are taken away by the one test that uses it."""


def unique(stem: str) -> str:
    """A resource name that no earlier session on this cluster has used."""
    return f"{stem}-{uuid.uuid4().hex[:6]}"


@dataclass
class RunHandle:
    """An EvaluationRun that a test made."""

    bench: "Bench"
    namespace: str
    name: str

    def wait(self, until: Callable[[Object], bool], what: str, seconds: float = SECONDS) -> EvaluationRun:
        found = self.bench.kube.wait(RUNS, self.namespace, self.name, until, what=what, seconds=seconds)
        return EvaluationRun.parse(found)

    def wait_for(
        self, type_: str, status: str = "True", reason: str | None = None, seconds: float = SECONDS
    ) -> Object:
        """The condition, as soon as it has this status (and reason)."""
        what = f"condition {type_}={status} {reason or ''}"
        holds = has_condition(type_, status, reason)
        found = self.bench.kube.wait(RUNS, self.namespace, self.name, holds, what=what, seconds=seconds)
        current = condition(found, type_)
        assert current is not None
        return current

    def completed(self, seconds: float = SECONDS) -> EvaluationRun:
        """The run once it is Complete; a run that Failed fails the test at once, with its conditions."""

        def ended(found: Object) -> bool:
            failed = condition(found, "Failed")
            assert not (failed and failed["status"] == "True"), found["status"]
            return has_condition("Complete")(found)

        return self.wait(ended, "Complete", seconds)

    def now(self) -> EvaluationRun:
        return EvaluationRun.parse(self.bench.kube.get(RUNS, self.namespace, self.name))

    def jobs(self) -> list[Object]:
        return self.bench.kube.items(JOBS, self.namespace, self.selector)

    def pods(self) -> list[Object]:
        return self.bench.kube.items(PODS, self.namespace, self.selector)

    @property
    def selector(self) -> str:
        uid = self.bench.kube.get(RUNS, self.namespace, self.name)["metadata"]["uid"]
        return f"assay.dev/run-uid={uid}"

    def evidence(self) -> list[evidence.TryEvidence]:
        current = self.now()
        prefix = f"{current.spec.storage.s3.prefix}{current.metadata.uid}/"
        return evidence.of_run(self.bench.store, current.spec.storage.s3.bucket, prefix)

    def recorded(self) -> list[TryRecord]:
        """The tries that the run's journal holds."""
        current = self.now()
        target, uid = storage_of(current), current.metadata.uid

        async def read() -> list[TryRecord]:
            store = AsyncS3Store(self.bench.store.settings)
            try:
                journal = JournalStore(store, target.bucket, journal_prefix(target, uid), uid)
                return list((await journal.load(LAST_EPOCH)).records.values())
            finally:
                await store.close()

        return asyncio.run(read())

    def described(self) -> str:
        """What `kubectl describe` prints."""
        return run(["kubectl", "describe", "evaluationrun", self.name, "-n", self.namespace])

    def events(self) -> list[Object]:
        found = self.bench.kube.items(EVENTS, self.namespace)
        return [event for event in found if event["involvedObject"]["name"] == self.name]


@dataclass
class Bench:
    """Everything that a test needs of the cluster."""

    kube: Kube
    target: Target
    store: S3Store
    scratch: Path
    images: dict[str, str] = field(default_factory=dict)
    manifests: dict[str, Object] = field(default_factory=dict)
    """Manifests of the Ledgers that were published, by name."""

    @classmethod
    def on(cls, target: Target, kube: Kube, scratch: Path) -> "Bench":
        images = built_images("core", "examples")
        return cls(kube, target, S3Store(S3Settings.from_env(target.storage.environment())), scratch, images)

    @property
    def bucket(self) -> str:
        return self.target.storage.bucket

    @property
    def task_image(self) -> str:
        """The image by digest that tasks without one of their own run in."""
        return next(pinned for name, pinned in self.images.items() if name.startswith("examples/"))

    def ledger(
        self, *tasks: Task, namespace: str = RUN_NAMESPACE, digest: str | None = None, applied: bool = True
    ) -> str:
        """Builds, publishes and applies a ledger; returns its name. `digest` states a wrong one."""
        name = unique("ledger")
        folder = self.scratch / name
        for task in tasks:
            task.write(folder / "tasks", self.task_image)
        manifest = self.publish(name, folder / "tasks", build_file(name), namespace)
        if digest is not None:
            manifest["spec"]["digest"] = digest
        if applied:
            apply([manifest])
        return name

    def publish(
        self,
        name: str,
        tasks: Path,
        facts: str,
        namespace: str = RUN_NAMESPACE,
        image_groups: tuple[str, ...] = ("examples",),
    ) -> Object:
        """Builds and publishes a folder of tasks; returns the manifest of its Ledger."""
        scratch = self.scratch / f"{name}-build"
        scratch.mkdir(parents=True)
        (scratch / "build.toml").write_text(facts)
        self.manifests[name] = publish_ledger(
            self.target.storage,
            tasks,
            scratch / "build.toml",
            scratch,
            name=name,
            namespace=namespace,
            image_groups=image_groups,
        )
        return self.manifests[name]

    def variant(
        self,
        agent: str = "oracle",
        *,
        namespace: str = RUN_NAMESPACE,
        models: Sequence[Object] = (),
        **more: Any,
    ) -> str:
        name = unique(agent)
        apply([variant_manifest(name, namespace, agent, models, **more)])
        return name

    def run(
        self,
        ledgers: str | Sequence[str],
        variants: str | Sequence[str],
        *,
        namespace: str = RUN_NAMESPACE,
        **spec: Any,
    ) -> RunHandle:
        name = unique("run")
        apply([self.run_manifest(name, namespace, _listed(ledgers), _listed(variants), spec)])
        return RunHandle(self, namespace, name)

    def run_manifest(
        self, name: str, namespace: str, ledgers: Sequence[str], variants: Sequence[str], spec: Object
    ) -> Object:
        return {
            "apiVersion": "assay.dev/v1alpha1",
            "kind": "EvaluationRun",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {
                "ledgers": [{"name": ledger} for ledger in ledgers],
                "variants": [{"name": variant} for variant in variants],
                "parallelism": 2,
                "storage": {"s3": {"bucket": self.bucket, "prefix": "tests/"}},
                **spec,
            },
        }

    def verified(self, ledger: str, namespace: str = RUN_NAMESPACE) -> Object:
        """The Ledger once the operator has verified it."""
        return self.kube.wait(
            LEDGERS, namespace, ledger, has_condition("Verified"), what="Verified", seconds=SECONDS
        )

    def until(
        self, holds: Callable[[], bool], what: str, seconds: float = SECONDS, pause: float = 0.3
    ) -> None:
        """Returns once `holds` does; for what has no watch. What passes soon needs a short `pause`."""
        deadline = time.monotonic() + seconds
        while not holds():
            if time.monotonic() > deadline:
                raise WaitTimeout(f"{what}: not within {seconds:.0f} s")
            time.sleep(pause)

    def kubectl(self, *arguments: str) -> str:
        return run(["kubectl", *arguments])


def variant_manifest(
    name: str, namespace: str, agent: str, models: Sequence[Object] = (), **more: Any
) -> Object:
    return {
        "apiVersion": "assay.dev/v1alpha1",
        "kind": "AgentVariant",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"agent": {"name": agent, **more}, "models": list(models)},
    }


def _listed(names: str | Sequence[str]) -> Sequence[str]:
    return [names] if isinstance(names, str) else names


def build_file(benchmark: str) -> str:
    """A build file for tasks of one test."""
    stated = 'source = "tests/e2e", date = "2026-01-01"'
    return (
        f'benchmark = "{benchmark}"\nversion = "1"\nallow_unknown = ["baseCommit"]\n\n'
        "[plan]\nresources = { request_percent = 25, limit_percent = 100 }\n\n[defaults]\n"
        'oracle_kind = "script"\n'
        f'licence = {{ value = "Apache-2.0", {stated} }}\ndifficulty = {{ value = "easy", {stated} }}\n'
    )
