"""From what is known of one try to its state: live, to be looked up in S3, to be ended, or ended.

Order of trust: a verdict in the manifest in S3 (unless the pod was not the one that was rendered); what the
operator wrote on the Job before it ended the try; the kubelet's facts; the class that the manifest proposes;
the termination message, a hint. Nothing that the agent can write is among them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from assay.api.evidence import Manifest, TerminationMessage
from assay.api.outcome import OutcomeClass
from assay.core.hint import read_hint
from assay.core.observation import ENVIRONMENT, RUNNER, JobEvent, JobView, PodView
from assay.core.outcomes import TABLE, Disposition
from assay.core.pod_causes import Cause, Waiting, WaitingFor, cause_of_end, waiting_for
from assay.core.record import (
    NO_TOKENS,
    AttemptKey,
    ManifestAbsent,
    ManifestAnswer,
    ManifestBad,
    ManifestFound,
    TryRecord,
    TryTokens,
)

STUCK_SECONDS = 60
"""A pod that is still there so long after its grace period is stuck: mostly its node is lost."""

SETTLE_SECONDS = 5
"""A manifest may become visible shortly after its pod ended; "there is none" counts only after this."""

REASON_CHARACTERS = 500

_UNSPECIFIC = frozenset(
    {
        OutcomeClass.DISRUPTED,
        OutcomeClass.INFRA_START,
        OutcomeClass.SETUP_FAILED,
        OutcomeClass.RUNNER_RESTARTED,
        OutcomeClass.RESULT_MISSING,
        OutcomeClass.ARTIFACTS_PARTIAL,
        OutcomeClass.VERIFIER_CRASH,
        OutcomeClass.AGENT_NEVER_CALLED,
        OutcomeClass.UNRECOGNISED,
    }
)
"""Classes that a runner proposes when it lost its siblings or was told to go: the kubelet knows why."""


@dataclass(frozen=True, slots=True)
class TryTerms:
    """What a try is held against."""

    pending_seconds: int
    ledger_digest: str
    variant_fingerprint: str


@dataclass(frozen=True, slots=True)
class Live:
    """The try goes on. `waiting` is None while it works; `deadline` is when waiting turns into an outcome."""

    waiting: WaitingFor | None = None
    deadline: datetime | None = None


@dataclass(frozen=True, slots=True)
class AskStorage:
    """Nothing is decided before S3 said whether it has a manifest; not before `not_before`."""

    not_before: datetime | None = None


@dataclass(frozen=True, slots=True)
class EndNow:
    """The try can come to nothing: write `record` on its Job and end it."""

    record: TryRecord


@dataclass(frozen=True, slots=True)
class Ended:
    """The try is over. `durable` says whether `record` can be found again when its pod is gone."""

    record: TryRecord
    durable: bool


TryState = Live | AskStorage | EndNow | Ended


def classify(
    job: JobView,
    pod: PodView | None,
    answer: ManifestAnswer | None,
    event: JobEvent | None,
    terms: TryTerms,
    now: datetime,
) -> TryState:
    """State of one try, from its Job, its newest pod, S3's answer and the Job's newest Warning event."""
    written = _written_record(job)
    if not _is_over(job, pod):
        return _live(job, pod, event, terms, now, ending=written is not None)
    if written is not None and written.outcome is OutcomeClass.STOPPED and _was_over(pod, answer, written):
        written = None
    if pod and pod.ended and not pod.container(RUNNER).has_started:
        return _without_manifest(job, pod, written, now)
    if answer is None:
        return AskStorage()
    if isinstance(answer, ManifestAbsent):
        ended_at = min(_ended_at(job, pod, now), answer.first_asked_at or answer.asked_at)
        settled_at = ended_at + timedelta(seconds=SETTLE_SECONDS)
        if answer.asked_at < settled_at:
            return AskStorage(settled_at)
        return _without_manifest(job, pod, written, now)
    if isinstance(answer, ManifestBad):
        cause = Cause(OutcomeClass.INVALID_RESULT, f"manifest.json: {answer.reason}")
        return Ended(_record(job, pod, cause, now), durable=True)
    return _with_manifest(job, pod, answer, written, terms)


def record_of_manifest(found: ManifestFound, terms: TryTerms) -> TryRecord:
    """Record of a try of which nothing but its manifest is left."""
    identity = found.manifest.identity
    cause = _manifest_cause(found.manifest, terms)
    return _fill(
        TryRecord(
            AttemptKey.of(identity),
            identity.try_number,
            identity.job_name,
            cause.outcome,
            cause.reason[:REASON_CHARACTERS],
            found.manifest.result.finished_at,
            found.manifest.pod_uid,
            verifies=found.manifest.verify_only.try_number if found.manifest.verify_only else None,
            # What the manifest says of another ledger's or variant's try waits for no verdict here.
            artifacts_digest=found.artifacts if cause.outcome is found.manifest.result.outcome else "",
            graded_as=found.manifest.result.graded_as,
        ),
        found,
    )


def lost(job: JobView, answer: ManifestAnswer, now: datetime) -> TryRecord:
    """Record of a try whose Job was deleted before its result was durable, where S3 has none of it."""
    written = _written_record(job)
    if written is not None:
        return written
    if isinstance(answer, ManifestBad):
        return _record(job, None, Cause(OutcomeClass.INVALID_RESULT, f"manifest.json: {answer.reason}"), now)
    words = "the Job was deleted before its result was recorded, and S3 has no manifest of it"
    return _record(job, None, Cause(OutcomeClass.DISRUPTED, words), now)


def stopped(job: JobView, pod: PodView | None, now: datetime) -> TryRecord:
    """Record of a live try that a person's suspension ends; a verdict that it still reaches wins."""
    return _record(job, pod, Cause(OutcomeClass.STOPPED, "spec.suspend is true with suspendPolicy Stop"), now)


def _was_over(pod: PodView | None, answer: ManifestAnswer | None, stop: TryRecord) -> bool:
    """Whether the try had ended by itself before it was stopped: then it is what it was, and counts."""
    ended = pod.ended_at if pod is not None else None
    if isinstance(answer, ManifestFound):
        ended = answer.manifest.result.finished_at
    # The kubelet's times have whole seconds.
    return ended is not None and ended < stop.ended_at.replace(microsecond=0)


def stuck(pod: PodView | None, now: datetime) -> WaitingFor | None:
    """What a pod that should be gone by now waits for; None for any other."""
    if pod is None or pod.gone or pod.gone_by is None or now < pod.gone_by + timedelta(seconds=STUCK_SECONDS):
        return None
    words = (
        f"pod {pod.name} should have been gone at {pod.gone_by:%H:%M:%S} UTC: if its node "
        f"{pod.node or '(none)'} is lost for good, delete the Node, or the pod with --force"
    )
    return WaitingFor(Waiting.STUCK_TERMINATING, words)


def _is_over(job: JobView, pod: PodView | None) -> bool:
    if pod is None:
        return job.finished is not None
    if job.suspended and job.finished is None and pod.gone and not pod.container(ENVIRONMENT).has_started:
        # Kueue took the Job back before anything ran: it is queued again, and nothing is counted.
        return False
    return pod.ended


def _mutated(job: JobView, pod: PodView | None) -> bool:
    return pod is not None and bool(job.rendered_digest) and pod.rendered_digest != job.rendered_digest


_MUTATED = Cause(
    OutcomeClass.POD_MUTATED,
    "the admitted pod differs from the rendered one: containers, images, commands, account or try spec",
)


def _live(
    job: JobView, pod: PodView | None, event: JobEvent | None, terms: TryTerms, now: datetime, ending: bool
) -> TryState:
    if ending or (pod is not None and pod.deleting and not pod.gone):
        by = pod.gone_by + timedelta(seconds=STUCK_SECONDS) if pod and pod.gone_by else None
        return Live(stuck(pod, now) or WaitingFor(Waiting.ENDING), by if by and by > now else None)
    waiting = waiting_for(job, pod, event)
    if _mutated(job, pod):
        return EndNow(_record(job, pod, _MUTATED, now))
    if waiting is None or waiting.since is None or pod is None:
        return Live(waiting)
    deadline = waiting.since + timedelta(seconds=terms.pending_seconds)
    if now < deadline:
        return Live(waiting, deadline)
    # Once the agent has worked, a container that cannot start is the verifier's: the artefacts exist.
    worked = pod.container(ENVIRONMENT).has_started
    outcome = OutcomeClass.VERIFIER_CRASH if worked else OutcomeClass.INFRA_START
    reason = f"{waiting.reason.value} for {terms.pending_seconds} s: {waiting.message}".rstrip(": ")
    return EndNow(_record(job, pod, Cause(outcome, reason), now))


def _with_manifest(
    job: JobView, pod: PodView | None, found: ManifestFound, written: TryRecord | None, terms: TryTerms
) -> TryState:
    manifest = found.manifest
    stranger = _stranger(job, pod, manifest)
    if stranger:
        cause = Cause(OutcomeClass.INVALID_RESULT, stranger)
        return Ended(_record(job, pod, cause, manifest.result.finished_at), durable=True)
    record = record_of_manifest(found, terms)
    if pod is not None:
        record = replace(record, images=_images(pod))
    if written is not None and written.outcome is OutcomeClass.POD_MUTATED:
        return Ended(_fill(written, found), durable=True)
    if _mutated(job, pod):
        mutated = _record(job, pod, _MUTATED, manifest.result.finished_at)
        return Ended(_fill(mutated, found), durable=False)
    if record.rule.retained:
        return Ended(record, durable=True)
    if written is not None:
        kept = replace(
            _fill(written, found), artifacts_digest=record.artifacts_digest, graded_as=record.graded_as
        )
        return Ended(kept, durable=True)
    kubelet = cause_of_end(pod) if pod is not None and manifest.result.outcome in _UNSPECIFIC else None
    # That the pod was told to end the runner knows; who ended it, the cluster alone.
    said = record.outcome if record.outcome is not OutcomeClass.DISRUPTED else None
    # A runner that was restarted cannot know what had killed it.
    told = kubelet is not None and kubelet.outcome is said and said is not OutcomeClass.RUNNER_RESTARTED
    if kubelet is None or told:
        return Ended(record, durable=True)
    record = replace(record, outcome=kubelet.outcome, reason=kubelet.reason[:REASON_CHARACTERS])
    return Ended(record, durable=False)


def _without_manifest(job: JobView, pod: PodView | None, written: TryRecord | None, now: datetime) -> Ended:
    if written is not None:
        return Ended(written, durable=True)
    cause = _MUTATED if _mutated(job, pod) else _cause_without_manifest(job, pod)
    return Ended(_record(job, pod, cause, now), durable=False)


def _cause_without_manifest(job: JobView, pod: PodView | None) -> Cause:
    if pod is None:
        words = f"{job.finished.reason}: {job.finished.message}" if job.finished else ""
        return Cause(
            OutcomeClass.DISRUPTED, f"the pod is gone and left no manifest in S3; the Job says {words}"
        )
    hint = read_hint(pod, job.name)
    kubelet = cause_of_end(pod)
    if kubelet is not None:
        return kubelet
    if isinstance(hint, str):
        return _plain_end(pod, f"termination message ignored: {hint}")
    return _hinted(pod, hint)


def _hinted(pod: PodView, hint: TerminationMessage) -> Cause:
    if hint.manifest is not None:
        reason = f"the termination message announces manifest {hint.manifest}, S3 has none"
        return Cause(OutcomeClass.RESULT_MISSING, reason)
    if TABLE[hint.outcome].retained:
        # Without evidence in S3 there is no result, whatever the hint says.
        return _plain_end(pod, f"termination message says {hint.outcome.value}, without evidence")
    return Cause(
        hint.outcome, f"{hint.reason or TABLE[hint.outcome].meaning} (termination message, no manifest)"
    )


def _plain_end(pod: PodView, note: str) -> Cause:
    if pod.deleting:
        words = f"pod {pod.name} was deleted and left no manifest in S3; {note}"
        return Cause(OutcomeClass.DISRUPTED, words)
    codes = {view.name: view.exit_code for view in pod.containers.values() if view.exit_code}
    if pod.reason:
        return Cause(OutcomeClass.UNRECOGNISED, f"{pod.reason}: {pod.message}; no manifest in S3; {note}")
    if codes:
        ends = ", ".join(f"{name} {code}" for name, code in sorted(codes.items()))
        return Cause(OutcomeClass.UNRECOGNISED, f"exit codes {ends}; no manifest in S3; {note}")
    return Cause(OutcomeClass.RESULT_MISSING, f"the pod ended and S3 has no manifest of it; {note}")


def _manifest_cause(manifest: Manifest, terms: TryTerms) -> Cause:
    result = manifest.result
    if manifest.ledger_digest != terms.ledger_digest:
        reason = f"the try ran with ledger {manifest.ledger_digest}, the run has {terms.ledger_digest}"
        return Cause(OutcomeClass.LEDGER_MISMATCH, reason)
    pin = result.harness.ledger_pin
    if pin is not None and pin != terms.ledger_digest:
        reason = f"the runner's image is pinned to ledger {pin}, the run has {terms.ledger_digest}"
        return Cause(OutcomeClass.LEDGER_MISMATCH, reason)
    if manifest.variant_fingerprint != terms.variant_fingerprint:
        reason = f"the try ran with variant {manifest.variant_fingerprint}, not {terms.variant_fingerprint}"
        return Cause(OutcomeClass.INVALID_RESULT, reason)
    if TABLE[result.outcome].disposition is Disposition.RETAIN and result.reward is None:
        return Cause(OutcomeClass.INVALID_RESULT, f"{result.outcome.value} without a reward")
    return Cause(result.outcome, result.reason)


def _stranger(job: JobView, pod: PodView | None, manifest: Manifest) -> str:
    identity = manifest.identity
    if identity.run_uid != job.run_uid or identity.job_name != job.name:
        return f"manifest.json is of another try: run {identity.run_uid}, Job {identity.job_name}"
    if pod is not None and manifest.pod_uid != pod.uid:
        return f"manifest.json is of pod {manifest.pod_uid}, not of {pod.uid}"
    return ""


def _written_record(job: JobView) -> TryRecord | None:
    if not job.record_json:
        return None
    try:
        record = TryRecord.from_json(job.record_json)
    except ValueError:
        return None
    return record if record.job_name == job.name else None


def _record(job: JobView, pod: PodView | None, cause: Cause, now: datetime) -> TryRecord:
    ended_at = _ended_at(job, pod, now)
    return TryRecord(
        key=AttemptKey.parse(job.attempt_key),
        try_number=job.try_number,
        job_name=job.name,
        outcome=cause.outcome,
        reason=cause.reason[:REASON_CHARACTERS],
        ended_at=ended_at,
        pod_uid=pod.uid if pod else "",
        total_seconds=max(0.0, (ended_at - job.created_at).total_seconds()),
        images=_images(pod) if pod else (),
        verifies=job.verifies,
    )


def _fill(record: TryRecord, found: ManifestFound) -> TryRecord:
    """`record` with the figures of its manifest; the class stays."""
    result = found.manifest.result
    return replace(
        record,
        reward=result.reward if record.rule.retained else None,
        agent_timed_out=result.agent_timed_out,
        setup_seconds=result.seconds.setup,
        agent_seconds=result.seconds.agent,
        verifier_seconds=result.seconds.verifier,
        upload_seconds=result.seconds.upload,
        total_seconds=max(0.0, (result.finished_at - result.started_at).total_seconds()),
        tokens=NO_TOKENS if found.manifest.verify_only else TryTokens.of(result.tokens),
        model_calls=result.model_calls,
        harbor_version=result.harness.harbor,
        harness_commit=result.harness.commit or "",
        manifest_digest=found.digest,
        flags=tuple(result.flags),
    )


def _ended_at(job: JobView, pod: PodView | None, now: datetime) -> datetime:
    """When the try ended, never in the future: a node's clock may be ahead."""
    if pod is not None and pod.ended_at is not None:
        return min(pod.ended_at, now)
    return min((job.finished.since if job.finished else None) or now, now)


def _images(pod: PodView) -> tuple[tuple[str, str], ...]:
    ids: Mapping[str, str] = {name: view.image_id for name, view in pod.containers.items() if view.image_id}
    return tuple(sorted(ids.items()))
