"""Ledgers, variants, runs, Jobs, pods and manifests for tests of the operator: small, valid, easy to bend."""

import uuid
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from assay.api.agent_variant import AgentVariantSpec
from assay.api.evaluation_run import EvaluationRun
from assay.api.evidence import (
    ARTIFACTS,
    EvidenceFile,
    HarnessVersion,
    Manifest,
    PhaseSeconds,
    TerminationMessage,
    TokenCounts,
    TryResult,
)
from assay.api.ledgerfile import (
    LabelledFact,
    LedgerHeader,
    NetworkMode,
    Oracle,
    OracleKind,
    Plan,
    TaskImages,
    TaskLine,
    TaskResources,
    TaskTimeouts,
    VerifierMode,
)
from assay.api.outcome import OutcomeClass
from assay.api.tryspec import AttemptIdentity
from assay.core.canonical import digest_of
from assay.core.ledger import with_line_digest
from assay.core.observation import ConditionView, ContainerView, JobView, Phase, PodView
from assay.core.plan import RunLedger, RunPlan, RunVariant, make_plan
from assay.core.reconcile import name_of
from assay.core.record import AttemptKey, ManifestFound, TryRecord
from assay.core.variants import fingerprint
from assay.core.verification import verify_only

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
RUN_UID = "11111111-1111-4111-8111-111111111111"
DIGEST = "sha256:" + "a" * 64
IMAGE = f"assay.test/task@{DIGEST}"
NAMESPACE = "evals"


def later(seconds: float) -> datetime:
    """A moment after the tests' beginning of time."""
    return NOW + timedelta(seconds=seconds)


def task(name: str = "task-a", **changes: Any) -> TaskLine:
    """A valid task line."""
    fact = LabelledFact(value="MIT", source="LICENSE", date="2026-01-01")
    line = TaskLine(
        id=name,
        archive_digest=DIGEST,
        archive_bytes=1024,
        harbor_digest=DIGEST,
        licence=fact,
        difficulty=LabelledFact(value="easy", source="author", date="2026-01-01"),
        repository="https://git.example/tasks",
        base_commit="a" * 40,
        oracle=Oracle(kind=OracleKind.TESTS, digest=DIGEST),
        images=TaskImages(environment=IMAGE),
        verifier_mode=VerifierMode.SEPARATE,
        network=NetworkMode.NONE,
        resources=TaskResources(),
        timeouts=TaskTimeouts(),
        cluster=name,
        cluster_reason="its own",
        line_digest=DIGEST,
    )
    return with_line_digest(line.model_copy(update=changes))


def header(tasks: int, plan: Plan | None = None) -> LedgerHeader:
    """The header of a ledger of that many tasks."""
    return LedgerHeader(benchmark="tests", version="1", plan=plan or Plan(), task_count=tasks)


def run_ledger(name: str = "ledger", tasks: Sequence[TaskLine] = (), plan: Plan | None = None) -> RunLedger:
    """A verified ledger, by default of one task."""
    lines = tasks or (task(),)
    return RunLedger(
        name,
        str(uuid.uuid5(uuid.NAMESPACE_DNS, name)),
        DIGEST,
        header(len(lines), plan),
        {one.id: one for one in lines},
    )


def variant_spec(**changes: Any) -> AgentVariantSpec:
    """The spec of a variant without a model."""
    return AgentVariantSpec.model_validate({"agent": {"name": "oracle"}} | changes)


def run_variant(name: str = "oracle", spec: AgentVariantSpec | None = None) -> RunVariant:
    """A resolved variant."""
    chosen = spec or variant_spec(displayName=name)
    return RunVariant(name, str(uuid.uuid5(uuid.NAMESPACE_DNS, name)), fingerprint(chosen), chosen)


def run_object(name: str = "run", *, uid: str = RUN_UID, status: Any = None, **spec: Any) -> EvaluationRun:
    """An EvaluationRun of ledger `ledger` and variant `oracle`, with changes to its spec."""
    body = {
        "metadata": {"name": name, "namespace": NAMESPACE, "uid": uid, "generation": 1},
        "spec": {
            "ledgers": [{"name": "ledger"}],
            "variants": [{"name": "oracle"}],
            "storage": {"s3": {"bucket": "evidence"}},
        }
        | spec,
    }
    return EvaluationRun.parse(body | ({"status": status} if status else {}))


def plan_of(tasks: int = 1, variants: Sequence[str] = ("oracle",), **spec: Any) -> RunPlan:
    """The plan of a run over that many tasks."""
    lines = [task(f"task-{number}") for number in range(tasks)]
    run = run_object(variants=[{"name": name} for name in variants], **spec)
    return make_plan(run.spec, RUN_UID, [run_ledger(tasks=lines)], [run_variant(name) for name in variants])


def pod_uid_of(job_name: str) -> str:
    """A UID that belongs to the Job of that name."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, job_name))


def job_view(key: AttemptKey, try_number: int = 1, **changes: Any) -> JobView:
    """A Job as the operator made it."""
    name = name_of(RUN_UID, key, try_number)
    job = JobView(
        name=name,
        uid=str(uuid.uuid5(uuid.NAMESPACE_URL, name)),
        run_uid=RUN_UID,
        owner_uid=RUN_UID,
        created_at=NOW,
        attempt_key=str(key),
        try_number=try_number,
    )
    return replace(job, **changes)


def container(name: str, **changes: Any) -> ContainerView:
    """A container; by default it runs."""
    return replace(ContainerView(name, started_at=later(1)), **changes)


def ended(name: str, exit_code: int = 0, reason: str = "", **changes: Any) -> ContainerView:
    """A container that has ended."""
    why = reason or ("Error" if exit_code else "Completed")
    return container(name, **{"finished_at": later(60), "exit_code": exit_code, "reason": why} | changes)


def pod_view(job: JobView, *containers: ContainerView, **changes: Any) -> PodView:
    """A pod of the Job with the given containers."""
    pod = PodView(
        name=f"{job.name}-x",
        uid=pod_uid_of(job.name),
        job_name=job.name,
        run_uid=RUN_UID,
        created_at=NOW,
        attempt_key=job.attempt_key,
        phase=Phase.RUNNING,
        containers={one.name: one for one in containers},
    )
    return replace(pod, **changes)


def ended_pod(job: JobView, exit_code: int = 0, message: str = "", **changes: Any) -> PodView:
    """A pod whose containers have all ended, the verifier with `exit_code`."""
    return pod_view(
        job,
        ended("inject"),
        ended("runner", message=message),
        ended("environment"),
        ended("verifier", exit_code),
        **{"phase": Phase.FAILED if exit_code else Phase.SUCCEEDED} | changes,
    )


def true(type_: str, reason: str = "", message: str = "") -> dict[str, ConditionView]:
    """A pod's conditions with one that is True."""
    return {type_: ConditionView(type_, "True", reason, message, NOW)}


def identity(key: AttemptKey, try_number: int = 1, run_uid: str = RUN_UID) -> AttemptIdentity:
    """Identity of a try."""
    return AttemptIdentity(
        run_name="run",
        run_uid=run_uid,
        namespace=NAMESPACE,
        ledger=key.ledger,
        task=key.task,
        variant=key.variant,
        repetition=key.repetition,
        try_number=try_number,
        job_name=name_of(run_uid, key, try_number),
    )


def manifest(
    key: AttemptKey,
    outcome: OutcomeClass = OutcomeClass.GRADED,
    reward: float | None = 1.0,
    *,
    try_number: int = 1,
    variant: RunVariant | None = None,
    artifacts: bool = False,
    judged: TryRecord | None = None,
    **result: Any,
) -> Manifest:
    """The manifest of a try, with changes to its result.

    With `artifacts` the try left what its verifier was given; `judged` is the try that this one judged again.
    """
    who = identity(key, try_number)
    if artifacts and reward is None:
        result = {"graded_as": OutcomeClass.GRADED} | result
    figures: dict[str, Any] = {
        "outcome": outcome,
        "reward": reward,
        "started_at": later(2),
        "finished_at": later(62),
        "seconds": PhaseSeconds(agent=30.0),
        "tokens": TokenCounts(input=100, output=10),
        "harness": HarnessVersion(harbor="0.26.0", assay="0.1.0"),
    }
    return Manifest(
        identity=who,
        pod_uid=pod_uid_of(who.job_name),
        ledger_digest=DIGEST,
        variant_fingerprint=(variant or run_variant(key.variant)).fingerprint,
        archive_digest=DIGEST,
        files=[EvidenceFile(path=ARTIFACTS, size=1024, sha256=DIGEST)] if artifacts else [],
        result=TryResult(**figures | result),
        verify_only=verify_only(judged) if judged else None,
    )


def found(key: AttemptKey, *arguments: Any, **keywords: Any) -> ManifestFound:
    """S3's answer: a manifest."""
    made = manifest(key, *arguments, **keywords)
    return ManifestFound(made, digest_of(made))


def hint(job: JobView, outcome: OutcomeClass = OutcomeClass.GRADED, **changes: Any) -> str:
    """A termination message of the Job's pod."""
    message = TerminationMessage(job_name=job.name, pod_uid=pod_uid_of(job.name), outcome=outcome)
    return message.model_copy(update=changes).model_dump_json()
