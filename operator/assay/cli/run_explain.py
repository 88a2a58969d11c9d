"""`assay explain`: why an attempt stands as it does, try by try."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from rich.console import Console

from assay.adapters.kube_decode import decode_job, decode_pod
from assay.api.evaluation_run import EvaluationRun
from assay.api.labels import RUN_UID
from assay.cli.cluster import AsJson, Cluster, Context, Kubeconfig, Namespace, with_cluster
from assay.cli.output import print_json
from assay.cli.run_evidence import (
    Endpoint,
    LedgerName,
    Repetition,
    RunEvidence,
    Task,
    Variant,
    find_attempt,
    open_store,
)
from assay.cli.run_plan import plan_of
from assay.cli.run_views import RunName
from assay.core.attempts import AttemptState, Scored
from assay.core.classify import Live, classify
from assay.core.explanation import explain_state, explain_tries, state_of, tries_by_attempt
from assay.core.observation import JobView, PodView
from assay.core.plan import RunPlan
from assay.core.record import AttemptKey, TryRecord
from assay.core.terminal_text import printable


@dataclass(frozen=True, slots=True)
class _LiveTry:
    job: JobView
    pod: PodView | None
    words: str


@dataclass(frozen=True, slots=True)
class _Attempt:
    key: AttemptKey
    records: Sequence[TryRecord]
    state: AttemptState
    live: Sequence[_LiveTry]
    evidence: RunEvidence


def explain(
    run: RunName,
    task: Task,
    variant: Variant,
    ledger: LedgerName = None,
    repetition: Repetition = 0,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    endpoint: Endpoint = None,
    as_json: AsJson = False,
) -> None:
    """Tell of each try of an attempt: its class and why, its pod, where its evidence lies, what followed.

    Reads the run's journal in S3: the environment must name the store and give read access to it
    (ASSAY_S3_ENDPOINT, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY).

    Example:

        kubectl assay explain nightly count-requests terminus-2
    """

    async def read(cluster: Cluster) -> _Attempt:
        found = await cluster.run(run)
        async with open_store(endpoint) as store:
            evidence = RunEvidence(store, found)
            plan = await plan_of(cluster, store, found)
            records = await evidence.records() if found.status.started_at else []
            key = find_attempt(plan.attempts, task, variant, ledger, repetition)
            live = await _live(cluster, found, plan, key, {one.job_name for one in records})
            tries = tries_by_attempt(records)
            state = state_of(found, plan, tries, key, datetime.now(UTC))
            return _Attempt(key, tries.get(key, ()), state, live, evidence)

    attempt = with_cluster(read, namespace, context, kubeconfig)
    if as_json:
        print_json(_document(attempt))
    else:
        _print(attempt)


async def _live(
    cluster: Cluster, run: EvaluationRun, plan: RunPlan, key: AttemptKey, recorded: set[str]
) -> list[_LiveTry]:
    """Tries of the attempt whose Jobs are there and that are not recorded."""
    selector = {"labelSelector": f"{RUN_UID}={run.metadata.uid}"}
    jobs = [
        decode_job(raw)[1]
        async for page in cluster.client.pages(
            f"/apis/batch/v1/namespaces/{cluster.namespace}/jobs", selector
        )
        for raw in page
    ]
    mine = [job for job in jobs if job.attempt_key == str(key) and job.name not in recorded]
    return [await _live_try(cluster, plan, key, job) for job in mine]


async def _live_try(cluster: Cluster, plan: RunPlan, key: AttemptKey, job: JobView) -> _LiveTry:
    selector = {"labelSelector": f"batch.kubernetes.io/job-name={job.name}"}
    pods = [
        decode_pod(raw)[1]
        async for page in cluster.client.pages(f"/api/v1/namespaces/{cluster.namespace}/pods", selector)
        for raw in page
    ]
    pod = max(pods, key=lambda one: one.created_at, default=None)
    state = classify(job, pod, None, None, plan.terms(key), datetime.now(UTC))
    if not isinstance(state, Live):
        words = "has ended; its result is being recorded"
    elif state.waiting is None:
        words = "works"
    else:
        words = f"waits: {state.waiting.reason.value}: {state.waiting.message}".rstrip(": ")
    return _LiveTry(job, pod, words)


def _print(attempt: _Attempt) -> None:
    console = Console(highlight=False, soft_wrap=True)

    def line(text: str, style: str = "") -> None:
        console.print(printable(text), markup=False, style=style)

    key = attempt.key
    line(f"{key.task} · {key.variant} · repetition {key.repetition} · ledger {key.ledger}", "bold")
    line(explain_state(attempt.state, datetime.now(UTC)))
    for one in explain_tries(attempt.records, attempt.state):
        record = one.record
        reward = "" if record.reward is None else f", reward {record.reward:g}"
        judged = f", judges try {record.verifies} again" if record.verifies else ""
        line("")
        line(f"try {record.try_number}: {record.outcome.value}{reward}, {one.fate}{judged}", "bold")
        if record.reason:
            line(f"  why       {record.reason}")
        line(f"  means     {one.meaning}; {one.follows}")
        line(f"  ended     {record.ended_at:%Y-%m-%d %H:%M:%S} UTC")
        line(f"  pod       Job {record.job_name}, pod UID {record.pod_uid or 'unknown'}")
        line(f"  evidence  s3://{attempt.evidence.bucket}/{attempt.evidence.prefix_of(record)}")
        line(f"  manifest  {record.manifest_digest or 'none: the evidence is not complete'}")
        if record.flags:
            line(f"  flags     {', '.join(record.flags)}")
    for live in attempt.live:
        line("")
        pod = f", pod {live.pod.name} on {live.pod.node or 'no node yet'}" if live.pod else ", no pod yet"
        line(f"try {live.job.try_number}: live{pod}", "bold")
        line(f"  {live.words}")


def _document(attempt: _Attempt) -> dict[str, object]:
    state = attempt.state
    return {
        **attempt.key._asdict(),
        "state": type(state).__name__,
        "score": state.score if isinstance(state, Scored) else None,
        "words": explain_state(state, datetime.now(UTC)),
        "tries": [
            {
                "try": one.record.try_number,
                "outcome": one.record.outcome.value,
                "reason": one.record.reason,
                "means": one.meaning,
                "fate": one.fate,
                "follows": one.follows,
                "reward": one.record.reward,
                "verifies": one.record.verifies,
                "endedAt": one.record.ended_at.isoformat(),
                "job": one.record.job_name,
                "podUid": one.record.pod_uid,
                "evidence": f"s3://{attempt.evidence.bucket}/{attempt.evidence.prefix_of(one.record)}",
                "manifest": one.record.manifest_digest or None,
                "flags": list(one.record.flags),
            }
            for one in explain_tries(attempt.records, state)
        ],
        "live": [
            {
                "try": one.job.try_number,
                "job": one.job.name,
                "pod": one.pod.name if one.pod else None,
                "words": one.words,
            }
            for one in attempt.live
        ],
    }
