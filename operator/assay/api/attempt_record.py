"""`attempts.jsonl`: one line for each try of each attempt, everything that scoring needs and nothing else."""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from assay.api.base import Digest, DNSName, Record, VersionedRecord
from assay.api.evidence import Count, PhaseSeconds, TokenCounts
from assay.api.journal import SegmentRef
from assay.api.ledger_history import DriftReference, EarlierRun
from assay.api.ledgerfile import TaskId
from assay.api.outcome import OutcomeClass
from assay.api.tryspec import ModelRole

Seconds = Annotated[float, Field(ge=0, le=366 * 24 * 3600)]
Name = Annotated[str, Field(min_length=1, max_length=253)]

MAX_CALLS = 100_000
"""Model calls of one try; the longest tries of the index make some hundreds."""


class RecordSource(StrEnum):
    """Who ran the try."""

    ASSAY = "assay"
    HARBOR = "harbor"


class Criterion(StrEnum):
    """What a judge was asked about a try."""

    REWARD_HACKING = "rewardHacking"
    REFUSAL = "refusal"


class JudgeVerdict(StrEnum):
    """What a judge answered. Not applicable and error are no answer: the try counts as not read."""

    CLEAN = "clean"
    FLAGGED = "flagged"
    NOT_APPLICABLE = "notApplicable"
    ERROR = "error"


class Judgement(Record):
    """One judge's verdict on a try, and what the judge was."""

    criterion: Criterion
    verdict: JudgeVerdict
    model: str | None = Field(default=None, max_length=200)
    prompt_digest: Digest | None = None
    reason: str = Field(default="", max_length=1000)


class CallUsage(Record):
    """One model call as it is priced. Prices have tiers for each call, so calls are not added up.

    A field that is None is unknown, never 0. `input` includes cache reads and writes, `output` reasoning.
    """

    model: str | None = Field(default=None, max_length=200, description="The model that answered.")
    role: ModelRole | None = None
    tokens: TokenCounts = TokenCounts()
    service_tier: str | None = Field(default=None, max_length=50, description="E.g. batch; None = standard.")


class ResourceAmounts(Record):
    """Resources of the agent's container."""

    cpu_millis: Count | None = None
    memory_mib: Count | None = None
    storage_mib: Count | None = None


class ResourceUse(Record):
    """What the try asked for, what it was limited to and, where it was measured, what it used at most."""

    requested: ResourceAmounts = ResourceAmounts()
    limit: ResourceAmounts = ResourceAmounts()
    peak: ResourceAmounts | None = None


class TryHarness(Record):
    """The code that ran the try, and the agent as it called itself."""

    harbor: str | None = Field(default=None, max_length=50)
    assay: str | None = Field(default=None, max_length=50)
    commit: str | None = Field(default=None, max_length=40)
    agent: str | None = Field(default=None, max_length=200)
    agent_version: str | None = Field(default=None, max_length=100)


class AttemptRecord(VersionedRecord):
    """One try of an attempt. Its identity is run, ledger, task, variant, repetition and try number.

    At most one try of an attempt is `retained`: it decides, the others were replaced. An attempt without a
    retained try has no result. Whatever is absent is unknown.
    """

    source: RecordSource = RecordSource.ASSAY
    run: Name = Field(description="Name of the run.")
    run_uid: str | None = Field(default=None, max_length=64)
    ledger: DNSName = Field(description="Name of the ledger within the run.")
    ledger_digest: Digest | None = Field(default=None, description="None where no ledger was frozen.")
    task: TaskId
    archive_digest: Digest | None = Field(
        default=None, description="Of the task's archive, which the runner checked before the agent started."
    )
    harbor_digest: Digest | None = Field(default=None, description="Of the task by Harbor's own algorithm.")
    variant: Name
    variant_fingerprint: Digest | None = None
    repetition: Annotated[int, Field(ge=0, le=9999)]
    try_number: Annotated[int, Field(ge=1, le=9999)] = 1
    retained: bool
    outcome: OutcomeClass
    reason: str = Field(default="", max_length=1000)
    reward: Annotated[float, Field(ge=0, le=1)] | None = Field(
        default=None, description="The verifier's reward, before judges; None without a valid one."
    )
    figures: dict[str, float] = Field(default_factory=dict, description="The verifier's other figures.")
    agent_timed_out: bool = False
    judgements: list[Judgement] = Field(default_factory=list, max_length=50)
    models: list[Name] = Field(default_factory=list, max_length=16, description="Models that were declared.")
    calls: list[CallUsage] | None = Field(
        default=None, max_length=MAX_CALLS, description="None = not recorded; empty = there was none."
    )
    first_call_at: datetime | None = Field(
        default=None, description="When the first model call began; None = there was none, or it is unknown."
    )
    tokens: TokenCounts = Field(default=TokenCounts(), description="Of all calls of the try together.")
    reported_cost_usd: Annotated[float, Field(ge=0)] | None = Field(
        default=None, description="What the agent itself said that it cost: shown nowhere, kept as evidence."
    )
    seconds: PhaseSeconds = PhaseSeconds()
    total_seconds: Seconds | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    resources: ResourceUse | None = None
    images: dict[str, str] = Field(default_factory=dict, max_length=16)
    harness: TryHarness = TryHarness()
    flags: list[str] = Field(default_factory=list, max_length=50)
    verifies: Annotated[int, Field(ge=1, le=9999)] | None = Field(
        default=None,
        description="Try whose artefacts this one judged again, without an agent. Where it is retained, its "
        "tokens, calls and agent seconds are that try's, and its total seconds those of both.",
    )
    figures_in: Annotated[int, Field(ge=1, le=9999)] | None = Field(
        default=None,
        description="The retained try that judged this one again: its figures include this one's.",
    )
    manifest_digest: Digest | None = Field(default=None, description="Of the try's manifest.json.")
    pod_uid: str | None = Field(
        default=None, max_length=64, description="Pod that ran the try; its evidence lies under this name."
    )

    @model_validator(mode="after")
    def _result_belongs_to_a_retained_try(self) -> Self:
        check_retained(self.retained, self.outcome, self.reward, self.flags)
        return self


VERDICT_FAILED = "verdictFailed"
"""Flag of an attempt that counts 0: every verdict on it failed, while the reference solution passes."""


def check_retained(retained: bool, outcome: OutcomeClass, reward: float | None, flags: Sequence[str]) -> None:
    """Raises ValueError for a try that is retained and has no result."""
    if retained and outcome in _FAILED_VERDICTS and VERDICT_FAILED in flags:
        return
    if retained and outcome in _NEVER_RETAINED:
        raise ValueError(
            f"outcome is {outcome.value} and retained is true: such a try has no result; "
            "set retained to false"
        )
    if retained and outcome is OutcomeClass.GRADED and reward is None:
        raise ValueError("outcome is Graded and reward is missing: give the verifier's reward")


_RESULTS = frozenset(
    {
        OutcomeClass.GRADED,
        OutcomeClass.TAMPERED,
        OutcomeClass.AGENT_OOM,
        OutcomeClass.AGENT_DISK_EXCEEDED,
        OutcomeClass.CONTEXT_EXCEEDED,
        OutcomeClass.BUDGET_EXHAUSTED,
        OutcomeClass.REFUSED_FALLBACK,
        OutcomeClass.REFUSED_BLOCKED,
    }
)
_NEVER_RETAINED = frozenset(OutcomeClass) - _RESULTS
_FAILED_VERDICTS = frozenset(
    {OutcomeClass.VERIFIER_TIMEOUT, OutcomeClass.VERIFIER_CRASH, OutcomeClass.JUDGE_INCOMPLETE}
)


class LedgerFacts(Record):
    """A ledger as the run used it, and when it was frozen."""

    name: DNSName
    digest: Digest
    verified: bool = Field(description="Whether the bytes were checked against the digest before the run.")
    frozen_at: datetime | None = Field(default=None, description="When the digest was put on record.")
    recorded_at: datetime | None = Field(
        default=None, description="When the journal's first segment was written, which names the ledger."
    )
    recorded_digest: Digest | None = Field(default=None, description="The digest that this segment names.")
    repetitions: Annotated[int, Field(ge=1, le=9999)]


class RunRecord(VersionedRecord):
    """`run.json`: what is true of the whole run. Without it no report is publishable.

    Its fields are also the fingerprint by which two runs are found comparable or not.
    """

    source: Literal[RecordSource.ASSAY] = RecordSource.ASSAY
    name: Name
    uid: str = Field(max_length=64)
    started_at: datetime
    completed_at: datetime | None = None
    ledgers: list[LedgerFacts] = Field(min_length=1, max_length=20)
    variants: dict[Name, Digest] = Field(description="Fingerprint of each variant.", max_length=50)
    baseline: Name | None = None
    suite: str | None = Field(default=None, max_length=200, description="name@version")
    order_seed: str | None = Field(
        default=None, max_length=100, description="Seed of the random order that all first tries shared."
    )
    reused_results: bool = Field(description="Whether results of earlier runs stand in for tries.")
    deviations: list[str] = Field(default_factory=list, description="Where the run departs from its plans.")
    concurrency: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="How many tries could be live at once."
    )
    deadlines: dict[str, int] = Field(
        default_factory=dict, description="Seconds that replace the ledger's, by phase."
    )
    images: dict[str, str] = Field(
        default_factory=dict, max_length=8, description="Assay's own, by digest: runner and sandboxd."
    )
    journal_head: SegmentRef | None = Field(
        default=None, description="Last segment of the run's journal: all of it hangs on this digest."
    )
    price_sheet: Digest | None = Field(default=None, description="The sheet that the run pinned.")
    references: list[DriftReference] = Field(
        default_factory=list, max_length=20, description="What the baseline was tested against, by ledger."
    )
    earlier_runs: list[EarlierRun] | None = Field(
        default=None, max_length=100_000, description="Other runs of these variants; None = nobody looked."
    )
    evidence: str | None = Field(
        default=None, max_length=600, description="Below it lies all evidence: s3://bucket/prefix/run-uid/"
    )
    revision: Annotated[int, Field(ge=1, le=1001)] = Field(
        default=1, description="Of the report; one more each time that the run was asked to try again."
    )
    supersedes: Digest | None = Field(
        default=None, description="Digest of the report of the revision before; None in the first."
    )
