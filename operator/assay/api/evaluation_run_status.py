"""Status of an EvaluationRun: below 128 KiB at any size, because what grows lies in S3 (cases.md BAR 8)."""

from enum import StrEnum
from typing import Annotated, Self

from pydantic import ConfigDict, Field, StringConstraints, model_validator

from assay.api.base import ImageByDigest
from assay.api.conditions import Timestamp
from assay.api.outcome import OutcomeClass
from assay.api.resource import (
    UID,
    BoundedDigest,
    Bucket,
    Conditions,
    Count,
    DecimalString,
    ResourceName,
    StatusPart,
    list_map,
    rules,
)

MAX_ROWS = 100
MEAN_LENGTH = 10
Share = Annotated[str, StringConstraints(pattern=r"^(0|1)(\.[0-9]+)?$", max_length=8)]
"""A share between 0 and 1, as a decimal string of at most six places."""
Shift = Annotated[str, StringConstraints(pattern=r"^-?(0|1)(\.[0-9]+)?$", max_length=7)]
"""A difference of shares, as a decimal string of at most four places."""
ShareInterval = Annotated[
    str, StringConstraints(pattern=r"^-?[0-9]+(\.[0-9]+)? -?[0-9]+(\.[0-9]+)?$", max_length=17)
]
"""Low and high end of a 95 % interval with a space between; not clipped, so it may leave 0 to 1."""
MAX_FAILURES = 10
SCORES_LIMIT = 160
FAILURE_MESSAGE_LIMIT = 300


class RunCondition(StrEnum):
    """Condition types of an EvaluationRun."""

    LEDGERS_VERIFIED = "LedgersVerified"
    """Every ledger that the run names exists, is verified, and is the one that the run started with."""
    VARIANTS_RESOLVED = "VariantsResolved"
    """Every variant exists, has a fingerprint, and is the one that the run started with."""
    PROGRESSING = "Progressing"
    """Tries are being made; False with the cause when the run waits or has ended."""
    SUSPENDED = "Suspended"
    """No new try is started: by `spec.suspend`, or because going on would waste money or spoil figures."""
    STALLED = "Stalled"
    """Nothing has moved for long although tries are outstanding; the message says what is waited for."""
    COMPLETE = "Complete"
    """Every planned attempt is recorded and coverage reaches `spec.minCoveragePercent`. Terminal."""
    FAILED = "Failed"
    """The run has ended without reaching its coverage, or can never start. Terminal."""
    PUBLISHABLE = "Publishable"
    """The figures may stand as a ranking: see docs/reference; False carries every cause in its message."""


class RunReason(StrEnum):
    """Reasons of an EvaluationRun's conditions."""

    # LedgersVerified
    VERIFIED = "Verified"
    """Every ledger's bytes have the digest that its resource states."""
    LEDGER_NOT_FOUND = "LedgerNotFound"
    """A Ledger that the run names does not exist; the run waits for it."""
    LEDGER_NOT_VERIFIED = "LedgerNotVerified"
    """The Ledger exists and is not verified (yet); its own condition says why."""
    DIGEST_MISMATCH = "DigestMismatch"
    """The bytes of a ledger file differ from the stated digest; no Job is made."""
    LEDGER_REPLACED = "LedgerReplaced"
    """A Ledger of that name has another UID than at the start."""

    # VariantsResolved
    RESOLVED = "Resolved"
    """Every variant exists and has a fingerprint."""
    VARIANT_NOT_FOUND = "VariantNotFound"
    """An AgentVariant that the run names does not exist; the run waits for it."""
    VARIANT_NOT_ACCEPTED = "VariantNotAccepted"
    """The AgentVariant exists and is not accepted (yet); its own condition says why."""
    VARIANT_REPLACED = "VariantReplaced"
    """An AgentVariant of that name has another UID than at the start."""
    BASELINE_NOT_FOUND = "BaselineNotFound"
    """The AgentVariant that is the baseline does not exist."""
    SECRET_MISSING = "SecretMissing"  # noqa: S105  a reason, not a secret
    """A variant's Secret or its key does not exist, or the Secret lacks its label; the message says which."""

    # Progressing
    RUNNING = "Running"
    """Tries are being made; the message says how many attempts are recorded."""
    WAITING_FOR_LEDGERS = "WaitingForLedgers"
    """LedgersVerified is not True; its message says why."""
    WAITING_FOR_VARIANTS = "WaitingForVariants"
    """VariantsResolved is not True; its message says why."""
    JOURNAL_DAMAGED = "JournalDamaged"
    """The run's journal in S3 is not what was written: nothing goes on before it is restored."""
    OUTCOME_TABLE_CHANGED = "OutcomeTableChanged"
    """Another version of the operator has other rules than the run began with; no try is made."""
    WAITING_FOR_STORAGE = "WaitingForStorage"
    """The object store cannot be reached, refuses the credentials, or lacks the bucket; nothing is lost."""
    PRICE_SHEET_UNUSABLE = "PriceSheetUnusable"
    """The price sheet that the run names is not there, or is another one; no Job is made."""
    WAITING_FOR_GATEWAY = "WaitingForGateway"
    """No gateway is ready in the run's namespace."""
    WAITING_FOR_QUOTA = "WaitingForQuota"
    """Kueue or a resource quota holds the Jobs back."""
    PODS_REFUSED = "PodsRefused"
    """The namespace refuses the pods (pod security, admission policy); the message is the API server's."""
    UNSCHEDULABLE = "Unschedulable"
    """No node has room for a pod; the message is the scheduler's."""
    IMAGE_UNAVAILABLE = "ImageUnavailable"
    """An image of an attempt pod cannot be pulled; the message is the kubelet's."""
    POD_NOT_STARTED = "PodNotStarted"
    """A pod has a node and starts nothing, e.g. for a volume; the message is its newest Warning Event's."""
    STUCK_TERMINATING = "StuckTerminating"
    """Pods are long past the time at which they should have been gone: their node may be lost."""
    FINISHED = "Finished"
    """The run is Complete or Failed."""

    # Suspended
    NOT_SUSPENDED = "NotSuspended"
    """Nothing keeps the run from going on."""
    REQUESTED = "Requested"
    """`spec.suspend` is true."""
    ISOLATION_ABSENT = "IsolationAbsent"
    """An attempt pod reached an address that it must not reach: NetworkPolicy is not enforced."""
    PROVIDER_AUTH = "ProviderAuth"
    """A model's provider refused the key."""
    PROVIDER_FUNDS = "ProviderFunds"
    """A model's provider says that the account has no funds."""
    LEDGER_MISMATCH = "LedgerMismatch"
    """A task archive or ledger is not the frozen one."""
    BUDGET_EXHAUSTED = "BudgetExhausted"
    """A bound of `spec.budget` is reached; the message says which. Raise it to go on."""
    CIRCUIT_OPEN = "CircuitOpen"
    """The first attempts all failed in the same way: going on would only spend more on the same fault."""

    # Stalled
    MOVING = "Moving"
    """Something was recorded or started lately, or nothing is outstanding."""
    NO_PROGRESS = "NoProgress"
    """Nothing has moved for long; the message says since when and what is waited for."""

    # Complete, Failed
    ATTEMPTS_OUTSTANDING = "AttemptsOutstanding"
    """Attempts without a final result are left."""
    ALL_RECORDED = "AllRecorded"
    """Every attempt has its final result, and coverage suffices."""
    COVERAGE_TOO_LOW = "CoverageTooLow"
    """Every attempt has ended, and fewer have a score than `spec.minCoveragePercent` asks for."""
    NO_VALID_ATTEMPT = "NoValidAttempt"
    """Every attempt has ended, and none has a score."""
    TOO_MANY_ATTEMPTS = "TooManyAttempts"
    """Tasks times variants times repetitions are more than one run may have."""
    PLAN_VIOLATED = "PlanViolated"
    """The run asks for what the ledger's plan forbids, e.g. more retries; the message names the field."""
    UNSUPPORTED = "Unsupported"
    """The spec asks for what this version cannot do; the message names the field."""
    NOT_FAILED = "NotFailed"
    """The run has not failed."""

    # Publishable
    PREREQUISITES_MET = "PrerequisitesMet"
    """Everything that a ranking needs is there."""
    PREREQUISITES_MISSING = "PrerequisitesMissing"
    """The message lists what is missing."""


class AttemptCounts(StatusPart):
    """Attempts by state. The states are disjoint and their sum is `planned`."""

    planned: Count = Field(
        default=0, description="planned attempts: tasks times variants times repetitions, over all ledgers."
    )
    waiting: Count = Field(default=0, description="waiting attempts: no live try and no final result.")
    live: Count = Field(default=0, description="live attempts: a try of theirs has a Job.")
    recorded: Count = Field(default=0, description="recorded attempts: a retained try with a score.")
    invalid: Count = Field(
        default=0, description="invalid attempts: retries are spent and no try gave a score; lowers coverage."
    )

    @model_validator(mode="after")
    def _sum_is_planned(self) -> Self:
        total = self.waiting + self.live + self.recorded + self.invalid
        if total != self.planned:
            raise ValueError(f"waiting + live + recorded + invalid is {total}, but planned is {self.planned}")
        return self


class OutcomeCount(StatusPart):
    """How many finished tries ended in an outcome class."""

    outcome: Annotated[OutcomeClass, Field(description="outcome class, see docs/reference/outcomes.md.")]
    tries: Count = Field(description="tries that ended so, replaced ones included.")


class Failure(StatusPart):
    """A try that did not give a score."""

    job_name: Annotated[str, StringConstraints(max_length=63)] = Field(description="jobName of the try.")
    task: Annotated[str, StringConstraints(max_length=250)] = Field(description="task of the attempt.")
    variant: ResourceName = Field(description="variant of the attempt.")
    repetition: Count = Field(description="repetition of the attempt, from 0.")
    outcome: OutcomeClass = Field(description="outcome class of the try.")
    message: Annotated[str, StringConstraints(max_length=FAILURE_MESSAGE_LIMIT)] = Field(
        default="", description="message says the cause in words."
    )
    time: Timestamp = Field(description="time at which the try was recorded.")


class ResolvedLedger(StatusPart):
    """A ledger as it was when the run started."""

    name: ResourceName = Field(description="name of the Ledger.")
    uid: UID = Field(description="uid of the Ledger; another object of the same name stops the run.")
    digest: BoundedDigest = Field(description="digest of the ledger file.")
    plan_digest: BoundedDigest = Field(description="planDigest of the canonical plan in the header.")
    tasks: Count = Field(description="tasks in the ledger.")


class ResolvedVariant(StatusPart):
    """A variant as it was when the run started."""

    name: ResourceName = Field(description="name of the AgentVariant.")
    uid: UID = Field(description="uid of the AgentVariant; another object of the same name stops the run.")
    fingerprint: BoundedDigest = Field(description="fingerprint of the variant.")


class ResolvedImages(StatusPart):
    """Images of Assay that the run started with; an upgrade of the operator does not change them."""

    runner: ImageByDigest = Field(description="runner image by digest.")
    sandboxd: ImageByDigest = Field(description="sandboxd image by digest.")


class Resolved(StatusPart):
    """Everything that the run's names stood for when it started."""

    ledgers: Annotated[
        list[ResolvedLedger], Field(max_length=20, json_schema_extra=list_map("name"), default_factory=list)
    ] = Field(description="ledgers as they were at the start.")
    variants: Annotated[
        list[ResolvedVariant], Field(max_length=50, json_schema_extra=list_map("name"), default_factory=list)
    ] = Field(description="variants as they were at the start.")
    images: ResolvedImages | None = Field(default=None, description="images of Assay that execute the tries.")
    price_sheet: BoundedDigest | None = Field(
        default=None, description="priceSheet that costs are computed with, by digest; absent = none."
    )
    outcome_table: BoundedDigest | None = Field(
        default=None,
        description="outcomeTable digest of the rules that decide what follows from an outcome; an operator "
        "with other rules does not go on with the run.",
    )
    operator_version: Annotated[str, Field(max_length=50)] | None = Field(
        default=None, description="operatorVersion that started the run."
    )


class Mean(StatusPart):
    """A mean over the attempts whose value is known, and how many those are."""

    mean: Annotated[DecimalString, StringConstraints(max_length=MEAN_LENGTH)] = Field(
        description="mean of the known values, with as many places as it has room for."
    )
    n: Annotated[int, Field(ge=0, le=100_000)] = Field(
        description="n is how many attempts have a known value."
    )


class VectorRow(StatusPart):
    """The result of one variant on one ledger: never a percentage without its companions.

    A companion that is absent is unknown (shown as —), never zero. `resolved` has the ledger's digest.
    """

    ledger: ResourceName = Field(description="ledger that was measured on.")
    variant: ResourceName = Field(description="variant that was measured.")
    planned: Count = Field(description="planned attempts of this row.")
    valid: Count = Field(description="valid attempts: those with a score.")
    coverage: Share = Field(description="coverage is valid over planned.")
    score_strict: Share | None = Field(
        default=None, description="scoreStrict is the mean over tasks with every missing score as 0."
    )
    score_valid: Share | None = Field(
        default=None, description="scoreValid is the mean over tasks of the valid attempts alone."
    )
    score_interval: ShareInterval | None = Field(
        default=None, description="scoreInterval of scoreStrict, 95 %, for tasks like these: low and high."
    )
    shift: Shift | None = Field(
        default=None, description="shift of scoreStrict against the baseline; the report has its error."
    )
    input_tokens: Mean | None = Field(
        default=None, description="inputTokens an attempt, cache reads and writes included."
    )
    cache_read_tokens: Mean | None = Field(default=None, description="cacheReadTokens an attempt.")
    cache_write_tokens: Mean | None = Field(default=None, description="cacheWriteTokens an attempt.")
    output_tokens: Mean | None = Field(default=None, description="outputTokens an attempt, with reasoning.")
    agent_seconds: Mean | None = Field(default=None, description="agentSeconds an attempt.")
    total_seconds: Mean | None = Field(default=None, description="totalSeconds an attempt, all phases.")
    cost_usd: Mean | None = Field(default=None, description="costUsd an attempt; absent = unknown.")
    tries: Count = Field(default=0, description="tries that were made, replaced ones included.")
    infra_errors: Count = Field(
        default=0, description="infraErrors is how many tries were lost to the infrastructure."
    )
    refusals: Count = Field(default=0, description="refusals is how many tries a model or provider refused.")
    flagged: Count = Field(default=0, description="flagged is how many retained tries carry a flag.")
    harness_commit: Annotated[str, StringConstraints(max_length=40)] | None = Field(
        default=None, description="harnessCommit is the commit of Assay that ran the tries; absent if mixed."
    )
    harbor_version: Annotated[str, StringConstraints(max_length=20)] | None = Field(
        default=None, description="harborVersion that ran the tries; absent if mixed."
    )


class IndexRow(StatusPart):
    """The index of one variant over the suite. Its components, errors and pooled means are in the report."""

    variant: ResourceName = Field(description="variant that was measured.")
    value: Share | None = Field(
        default=None, description="value of the index; absent unless every component is complete."
    )
    interval: ShareInterval | None = Field(
        default=None, description="interval of the index, 95 %, for tasks like these: low and high."
    )
    shift: Shift | None = Field(default=None, description="shift of the index against the baseline.")


class Report(StatusPart):
    """Where the run's report is."""

    revision: Count = Field(description="revision of the report; a retry makes the next one.")
    digest: BoundedDigest = Field(description="digest of the report's bytes.")
    bucket: Bucket = Field(description="bucket that holds the report.")
    key: Annotated[str, StringConstraints(max_length=450)] = Field(description="key of the report.")
    supersedes: BoundedDigest | None = Field(
        default=None, description="supersedes is the digest of the report of the revision before."
    )
    html_key: Annotated[str, StringConstraints(max_length=450)] | None = Field(
        default=None, description="htmlKey of the report as a page to read; absent = none could be made."
    )
    html_digest: BoundedDigest | None = Field(default=None, description="htmlDigest of that page's bytes.")


class EvaluationRunStatus(StatusPart):
    """How far the run is, and what came out."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "!has(oldSelf.startedAt) || (has(self.startedAt) && self.startedAt == oldSelf.startedAt)",
                "startedAt never moves",
            )
        )
    )

    observed_generation: Count = Field(
        default=0, description="observedGeneration is the metadata.generation that this status is of."
    )
    conditions: Conditions = Field(
        default_factory=list,
        max_length=16,
        description="conditions: LedgersVerified, VariantsResolved, Progressing, Suspended, Stalled, "
        "Complete, Failed, Publishable.",
    )
    started_at: Timestamp | None = Field(
        default=None, description="startedAt is when the first Job was about to be made; freezes the spec."
    )
    completed_at: Timestamp | None = Field(default=None, description="completedAt is when the run ended.")
    attempts: AttemptCounts = Field(
        default_factory=AttemptCounts, description="attempts by state; the states' sum is planned."
    )
    scores: Annotated[str, StringConstraints(max_length=SCORES_LIMIT)] = Field(
        default="",
        description="scores in short for kubectl get: strict ones so far with their n, the best first.",
    )
    outcomes: Annotated[
        list[OutcomeCount], Field(max_length=40, json_schema_extra=list_map("outcome"), default_factory=list)
    ] = Field(description="outcomes of the finished tries.")
    recent_failures: Annotated[
        list[Failure],
        Field(max_length=MAX_FAILURES, json_schema_extra=list_map("jobName"), default_factory=list),
    ] = Field(description="recentFailures are the newest tries without a score, newest first; at most 10.")
    resolved: Resolved | None = Field(
        default=None, description="resolved is what the run's names stood for when it started."
    )
    vector: Annotated[
        list[VectorRow],
        Field(max_length=MAX_ROWS, json_schema_extra=list_map("ledger", "variant"), default_factory=list),
    ] = Field(description="vector has one row for each ledger and variant.")
    index: Annotated[
        list[IndexRow], Field(max_length=50, json_schema_extra=list_map("variant"), default_factory=list)
    ] = Field(description="index has one row for each variant; empty without a suite.")
    evidence_prefix: Annotated[str, StringConstraints(max_length=400)] | None = Field(
        default=None, description="evidencePrefix below which everything of the run lies in the bucket."
    )
    observed_retry: Count = Field(
        default=0, description="observedRetry is the last value of spec.retry.unscoredOnly that was acted on."
    )
    report: Report | None = Field(default=None, description="report of the finished run.")
