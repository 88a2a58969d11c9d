"""From what a run left — try records, manifests, model calls — to attempt records and the run record."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any

import msgspec

from assay.api.attempt_record import (
    AttemptRecord,
    CallUsage,
    LedgerFacts,
    ResourceAmounts,
    ResourceUse,
    RunRecord,
    TryHarness,
)
from assay.api.evaluation_run import EvaluationRun
from assay.api.evidence import Manifest, PhaseSeconds, TokenCounts
from assay.api.journal import SegmentHeader
from assay.api.ledgerfile import TaskLine
from assay.core.names import run_prefix
from assay.core.plan import RunLedger, RunPlan, percent
from assay.core.record import NO_TOKENS, TryRecord
from assay.core.try_spec import storage_of

CALLS_INCOMPLETE = "callsIncomplete"
"""Flag of a try whose call records are fewer than its model calls: what it cost is not known."""
_PRICED_PATHS = ("completions", "messages", "responses")


class CallLineError(ValueError):
    """A line of `calls/*.jsonl` is no call record; the message names the line."""


class _Tokens(msgspec.Struct, rename="camel"):
    input: int | None = None
    cache_read: int | None = None
    cache_write_5m: int | None = msgspec.field(default=None, name="cacheWrite5M")
    cache_write_1h: int | None = msgspec.field(default=None, name="cacheWrite1H")
    reasoning: int | None = None
    output: int | None = None


class _Call(msgspec.Struct, rename="camel"):
    """A call record without its request: that is long, and nothing is priced by it."""

    path: str
    status: int
    started_at: datetime | None = None
    role: str | None = None
    model_asked: str | None = None
    model_answered: str | None = None
    tokens: _Tokens = msgspec.field(default_factory=_Tokens)
    response: Any = None


_calls = msgspec.json.Decoder(_Call)


@dataclass(frozen=True, slots=True)
class Calls:
    """The calls of a try that may have cost something, and how many call records there are in all."""

    priced: tuple[CallUsage, ...] = ()
    records: int = 0
    first_at: datetime | None = None
    """When the first of all began, refused ones included."""

    def __add__(self, other: "Calls") -> "Calls":
        """The calls of one more segment."""
        times = [one for one in (self.first_at, other.first_at) if one is not None]
        return Calls(self.priced + other.priced, self.records + other.records, min(times, default=None))


def read_calls(segment: bytes, name: str) -> Calls:
    """The calls of a segment. Raises CallLineError; `name` is the segment's."""
    found, number, times = [], 0, []
    for number, line in enumerate(segment.splitlines(), start=1):
        try:
            call = _calls.decode(line)
        except msgspec.DecodeError as error:
            raise CallLineError(f"{name}, line {number}: {error}") from error
        if call.started_at is not None:
            times.append(call.started_at)
        if _is_priced(call):
            tokens = TokenCounts.model_validate(msgspec.structs.asdict(call.tokens))
            found.append(
                CallUsage.model_validate(
                    {
                        "model": call.model_answered or call.model_asked,
                        "role": call.role,
                        "tokens": tokens,
                        "service_tier": _service_tier(call.response),
                    }
                )
            )
    return Calls(tuple(found), number, min(times, default=None))


def _is_priced(call: _Call) -> bool:
    """A refused call costs nothing; a count of tokens neither. One without any answer may have cost."""
    return call.status < 400 and PurePosixPath(call.path).name in _PRICED_PATHS


def _service_tier(response: Any) -> str | None:
    """What the provider says that it billed by: OpenAI beside the usage, Anthropic in it."""
    if not isinstance(response, dict):
        return None
    usage = response.get("usage")
    tier = response.get("service_tier") or (usage.get("service_tier") if isinstance(usage, dict) else None)
    return tier[:50] if isinstance(tier, str) else None


@dataclass(frozen=True, slots=True)
class TryEvidence:
    """What S3 has of a try: its manifest and, where it declares models, its calls."""

    manifest: Manifest
    calls: Calls = Calls()


def with_agents_evidence(verdict: TryEvidence | None, judged: TryEvidence | None) -> TryEvidence | None:
    """The evidence of an attempt whose agent ran in one try and whose verdict came in another one.

    Without the evidence of the judged try it is not known what its agent did or cost.
    """
    if verdict is None:
        return None
    ran = judged.manifest.result if judged else None
    own = verdict.manifest.result
    changes: dict[str, Any] = {"seconds": PhaseSeconds(verifier=own.seconds.verifier), "agent_version": None}
    if ran is not None:
        changes = {
            "seconds": ran.seconds.model_copy(update={"verifier": own.seconds.verifier}),
            "agent_version": ran.agent_version,
            "model_calls": ran.model_calls,
            "started_at": ran.started_at,
        }
    manifest = verdict.manifest.model_copy(update={"result": own.model_copy(update=changes)})
    return TryEvidence(manifest, judged.calls if judged else Calls())


def attempt_record(
    run: EvaluationRun,
    plan: RunPlan,
    record: TryRecord,
    found: TryEvidence | None,
    *,
    retained: bool,
    figures_in: int | None = None,
) -> AttemptRecord:
    """The record of one try. Without evidence, what the cluster saw of it is all that is known.

    A retained try that verified only is given with the agent's part: see `verification.with_agents_part` and
    `with_agents_evidence`. `figures_in` is the try that was given so in the place of this one.
    """
    ledger, variant = plan.ledgers[record.key.ledger], plan.variants[record.key.variant]
    task = ledger.tasks[record.key.task]
    result = found.manifest.result if found else None
    models = [model.name for model in variant.spec.models]
    no_agent = record.verifies is not None and not retained
    calls, flags = calls_of(found, [] if no_agent else models, record.flags)
    return AttemptRecord(
        run=run.metadata.name,
        run_uid=run.metadata.uid,
        ledger=record.key.ledger,
        ledger_digest=ledger.digest,
        task=record.key.task,
        archive_digest=task.archive_digest,
        harbor_digest=task.harbor_digest,
        variant=record.key.variant,
        variant_fingerprint=variant.fingerprint,
        repetition=record.key.repetition,
        try_number=record.try_number,
        retained=retained,
        outcome=record.outcome,
        reason=record.reason[:1000],
        reward=record.reward,
        figures=dict(result.rewards) if result else {},
        agent_timed_out=record.agent_timed_out,
        models=models,
        calls=calls,
        first_call_at=found.calls.first_at if found else None,
        tokens=(NO_TOKENS if no_agent else record.tokens).counts(),
        seconds=result.seconds if result else PhaseSeconds(agent=record.agent_seconds),
        total_seconds=record.total_seconds,
        started_at=result.started_at if result else None,
        finished_at=result.finished_at if result else record.ended_at,
        resources=_resources(ledger, task),
        images=dict(record.images),
        harness=TryHarness(
            harbor=result.harness.harbor if result else record.harbor_version or None,
            assay=result.harness.assay if result else None,
            commit=(result.harness.commit if result else record.harness_commit) or None,
            agent=variant.spec.agent.name,
            agent_version=result.agent_version if result else None,
        ),
        flags=flags,
        verifies=record.verifies,
        figures_in=figures_in,
        manifest_digest=record.manifest_digest or None,
        pod_uid=record.pod_uid or None,
    )


def calls_of(
    found: TryEvidence | None, models: Sequence[str], flags: Sequence[str]
) -> tuple[list[CallUsage] | None, list[str]]:
    """The calls of a try that declared `models`, None where they are not known, and its flags."""
    if not models:
        return [], list(flags)
    if found is None:
        return None, list(flags)
    made = found.manifest.result.model_calls
    if made is None or found.calls.records < made:
        return None, [*flags, CALLS_INCOMPLETE]
    return list(found.calls.priced), list(flags)


def _resources(ledger: RunLedger, task: TaskLine) -> ResourceUse:
    multiples = ledger.header.plan.resources
    return ResourceUse(
        requested=_amounts(task, multiples.request_percent), limit=_amounts(task, multiples.limit_percent)
    )


def _amounts(task: TaskLine, multiple: int) -> ResourceAmounts:
    asked = task.resources
    return ResourceAmounts(
        cpu_millis=percent(asked.cpu_millis, multiple),
        memory_mib=percent(asked.memory_mib, multiple),
        storage_mib=percent(asked.storage_mib, multiple),
    )


def run_record(
    run: EvaluationRun, plan: RunPlan, frozen: Mapping[str, datetime], first: SegmentHeader | None
) -> RunRecord:
    """`run.json` of a run. `frozen` is when each Ledger was first verified, `first` the journal's opening.

    Raises ValueError for a run that has not started.
    """
    if run.status.started_at is None:
        raise ValueError(f"run {run.metadata.name} has not started: it has no record yet")
    own, storage = run.spec.deadlines, storage_of(run)
    deadlines = {
        "setup": own.setup_seconds,
        "agent": own.agent_seconds,
        "verifier": own.verifier_seconds,
    }
    opening = first.opening if first else None
    recorded = {one.name: one.digest for one in opening.ledgers} if opening else {}
    return RunRecord(
        name=run.metadata.name,
        uid=run.metadata.uid,
        started_at=run.status.started_at,
        completed_at=run.status.completed_at,
        ledgers=[
            LedgerFacts(
                name=name,
                digest=ledger.digest,
                verified=True,
                frozen_at=frozen.get(name),
                recorded_at=first.written_at if first else None,
                recorded_digest=recorded.get(name),
                repetitions=plan.repetitions[name],
            )
            for name, ledger in plan.ledgers.items()
        ],
        variants={name: variant.fingerprint for name, variant in plan.variants.items()},
        baseline=run.spec.baseline.name if run.spec.baseline else None,
        suite=f"{run.spec.suite.name}@{run.spec.suite.version}" if run.spec.suite else None,
        order_seed=run.metadata.uid,
        reused_results=run.spec.reuse is not None,
        deviations=list(plan.deviations),
        concurrency=run.spec.parallelism,
        deadlines={phase: seconds for phase, seconds in deadlines.items() if seconds is not None},
        images=_images(run),
        evidence=f"s3://{storage.bucket}/{run_prefix(storage, run.metadata.uid)}",
    )


def _images(run: EvaluationRun) -> dict[str, str]:
    images = run.status.resolved.images if run.status.resolved else None
    return {"runner": images.runner, "sandboxd": images.sandboxd} if images else {}
