"""Verdicts that failed, and the tries that judge their artefacts again: a function of the records alone.

Once the agent's phase of a try has ended and its artefacts are stored, the agent is never run again for want
of a verdict: a fresh sample for a hung verifier would reward hanging it (docs/decisions/0012).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from assay.api.attempt_record import VERDICT_FAILED
from assay.api.outcome import OutcomeClass
from assay.api.tryspec import VerifyOnly
from assay.core.outcomes import TABLE, Disposition
from assay.core.plan import RunPlan
from assay.core.record import AttemptKey, TryRecord

ORACLE = "oracle"
"""Harbor's agent that applies the reference solution."""
FAILED_VERDICTS = 3
"""So many verdicts on the same artefacts must have failed before they may count 0."""

_OTHERS = frozenset(
    {
        OutcomeClass.DISRUPTED,
        OutcomeClass.STOPPED,
        OutcomeClass.RUNNER_RESTARTED,
        OutcomeClass.INVALID_RESULT,
    }
)


def keeps_sample(outcome: OutcomeClass) -> bool:
    """Whether after a try of this class its artefacts, where they are stored, are judged again.

    That is so where the verdict failed or could not be read, and where the pod went before there was one.
    """
    return TABLE[outcome].disposition is Disposition.REVERIFY or outcome in _OTHERS


def judged_try(records: Sequence[TryRecord]) -> TryRecord | None:
    """The try whose artefacts every further try of the attempt judges again; None while an agent may run."""
    return next((one for one in records if one.artifacts_digest and keeps_sample(one.outcome)), None)


def verify_only(judged: TryRecord) -> VerifyOnly:
    """What a try spec says of the try that is judged again."""
    return VerifyOnly(
        try_number=judged.try_number,
        pod_uid=judged.pod_uid,
        manifest_digest=judged.manifest_digest,
        artifacts_digest=judged.artifacts_digest,
        graded_as=judged.graded_as or OutcomeClass.GRADED,
    )


def with_agents_part(verdict: TryRecord, judged: TryRecord) -> TryRecord:
    """The result of an attempt: the verdict of one try on what another one's agent did.

    Tokens, calls and the agent's seconds are the judged try's; total seconds are those of both together.
    """
    seconds = (verdict.total_seconds, judged.total_seconds)
    return replace(
        verdict,
        agent_timed_out=judged.agent_timed_out,
        setup_seconds=judged.setup_seconds,
        agent_seconds=judged.agent_seconds,
        total_seconds=None if None in seconds else sum(one or 0.0 for one in seconds),
        tokens=judged.tokens,
        model_calls=judged.model_calls,
        flags=tuple(dict.fromkeys((*judged.flags, *verdict.flags))),
    )


def failed_for_good(last: TryRecord) -> TryRecord:
    """The result of an attempt whose every verdict failed: flagged, and without a reward of its own."""
    return replace(last, flags=(*last.flags, VERDICT_FAILED))


def oracle_passes(
    plan: RunPlan, records: Mapping[AttemptKey, Sequence[TryRecord]], attempt: AttemptKey
) -> bool:
    """Whether the verifier of the attempt's task is known to pass the reference solution on its image.

    Where the run has the oracle as a variant, what it scored here and now decides; else the ledger's proof.
    The oracle's own attempts prove nothing of themselves.
    """
    sentinels = [name for name, one in plan.variants.items() if one.spec.agent.name == ORACLE]
    if attempt.variant in sentinels:
        return False
    ledger = plan.ledgers[attempt.ledger]
    if not sentinels:
        oracle = ledger.tasks[attempt.task].oracle
        return oracle is not None and oracle.proof is not None
    rewards = [
        record.reward
        for name in sentinels
        for repetition in range(plan.repetitions[attempt.ledger])
        for record in records.get(AttemptKey(attempt.ledger, attempt.task, name, repetition), ())
        if record.outcome is OutcomeClass.GRADED
    ]
    return bool(rewards) and all(reward == 1 for reward in rewards)
