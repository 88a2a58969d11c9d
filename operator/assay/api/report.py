"""`report.json`: the published figures of a run. No percentage exists here without its companions.

Scores, rates and shifts are shares: 0.25 is 25 %. A figure that is not known is null, and a reason beside it
says why. Every field is required, so that no report can leave a companion out.
"""

from datetime import datetime
from decimal import Decimal
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from assay.api.attempt_record import Name, RunRecord
from assay.api.base import Digest, DNSName, Record, SchemaVersion
from assay.api.evidence import Count
from assay.api.ledger_history import DriftReference, EarlierRun
from assay.api.outcome import OutcomeClass

Share = Annotated[float, Field(ge=0, le=1)]
Shift = Annotated[float, Field(ge=-1, le=1)]
Role = Literal["baseline", "candidate", "sentinel"]


class Interval(Record):
    """A two-sided 95 % interval, not clipped."""

    low: float
    high: float
    half_width: float
    standard_error: float
    degrees_of_freedom: float


class Score(Record):
    """Scores of a variant on a set of tasks. Rank and index use `strict`."""

    strict: Share | None
    valid: Share | None
    cluster_mean: Share | None
    first_try_strict: Share | None
    first_try_valid: Share | None
    first_try_reason: str | None = Field(description="Why there is no score of first tries.")
    coverage: Share
    tasks: Count
    tasks_valid: Count
    clusters: Count
    attempts_planned: Count
    attempts_valid: Count
    first_tries_valid: Count
    reason: str | None

    @model_validator(mode="after")
    def _known_or_explained(self) -> Self:
        if (self.strict is None) != (self.reason is not None):
            raise ValueError("strict is null exactly where reason says why")
        if (self.first_try_strict is None) != (self.first_try_reason is not None):
            raise ValueError("firstTryStrict is null exactly where firstTryReason says why")
        return self


class SamplingError(Record):
    """How far the score may lie from the score on tasks like these; tasks come in clusters."""

    interval: Interval | None = Field(description="max(iid, CR2), Bell-McCaffrey degrees of freedom.")
    cr1_interval: Interval | None = Field(description="Second line: max(iid, CR1), clusters - 1.")
    iid: float | None
    cr1: float | None
    cr2: float | None
    tasks: Count
    clusters: Count
    reason: str | None


class RepeatNoise(Record):
    """Standard error over repetitions of these very tasks."""

    standard_error: float | None
    tasks: Count
    repetitions: Count
    reason: str | None


class SignFlip(Record):
    """Exact sign-flip test over task clusters; `adjusted_p` is Holm's over `family` tests."""

    p_value: float | None
    adjusted_p: float | None
    family: Count
    clusters: Count
    clusters_differing: Count
    smallest_possible_p: float
    reason: str | None


class ShiftFigures(Record):
    """Candidate minus baseline on the same tasks."""

    baseline: Name
    shift: Shift | None
    sampling: Interval | None
    repeat_noise: float | None
    sign_flip: SignFlip | None
    minimum_detectable_effect: float | None
    tasks: Count
    clusters: Count
    reason: str | None
    error_reason: str | None


class Drift(Record):
    """The baseline now minus the baseline of the reference run, on one frozen ledger."""

    ledger: DNSName
    shift: Shift | None
    repeat_noise: float | None
    p_shift: float | None
    p_any: float | None
    adjusted_p_shift: float | None
    adjusted_p_any: float | None
    detectable: float | None = Field(description="Smallest uniform drift found with 80 % power.")
    tasks: Count
    tasks_left_out: Count
    attempts_reference: Count
    attempts: Count
    reason: str | None


class Rate(Record):
    """`count` of `n`; `value` is null, with a reason, where the share is not known."""

    value: Share | None
    count: Count
    n: Count
    reason: str | None


class Rates(Record):
    """What happened to attempts, over those retained; `infrastructure` is over all tries."""

    refusal: Rate
    fallback: Rate
    blocked: Rate
    reward_hacking: Rate
    infrastructure: Rate


class KnownMean(Record):
    """Mean and total over the values that are known: `n` of `planned`."""

    mean: float | None
    total: float | None
    total_is_lower_bound: bool
    n: Count
    planned: Count
    reason: str | None


class KnownCost(Record):
    """USD, exact decimals: mean and total over the attempts whose cost is known."""

    mean: Decimal | None
    total: Decimal | None
    total_is_lower_bound: bool
    n: Count
    planned: Count
    reason: str | None


class TokenMeans(Record):
    """Tokens an attempt by kind. `input` includes cache reads and writes, `output` includes reasoning."""

    input: KnownMean
    cache_read: KnownMean
    cache_write: KnownMean
    reasoning: KnownMean
    output: KnownMean


class Usage(Record):
    """What a retained attempt took."""

    tokens: TokenMeans
    cost_usd: KnownCost
    agent_seconds: KnownMean
    total_seconds: KnownMean


class ReplacedTries(Record):
    """Tries that did not count, and what they took: totals over what is known."""

    tries: Count
    cost_usd: KnownCost
    total_seconds: KnownMean
    tokens: TokenMeans


class PassK(Record):
    """Would one of k attempts pass (pass@k), would all (pass^k)."""

    k: Annotated[int, Field(ge=1)]
    pass_at: Share | None
    pass_hat: Share | None
    pass_at_strict: Share | None
    pass_hat_strict: Share | None
    tasks: Count
    attempts_valid: Count
    fewest_valid: Count
    reason: str | None


class GroupScore(Record):
    """The score of the tasks that share a label's value; null is tasks without the label."""

    label: Literal["category", "language", "difficulty"]
    value: str | None
    score: Score


class Harness(Record):
    """The code that ran the tries; a mixture is listed whole."""

    assay: list[str]
    commits: list[str]
    harbor: list[str]
    agents: list[str]
    models: list[str]


class Row(Record):
    """The vector of one ledger and variant."""

    ledger: DNSName
    ledger_digest: Digest | None
    variant: Name
    role: Role
    run: Name
    score: Score
    sampling: SamplingError | None
    repeat_noise: RepeatNoise
    pass_k: list[PassK]
    groups: list[GroupScore]
    shift: ShiftFigures | None = Field(description="Null for the baseline itself and without a baseline.")
    shift_reason: str | None
    rates: Rates
    usage: Usage
    replaced: ReplacedTries
    tries: Count
    outcomes: dict[OutcomeClass, Count]
    harness: Harness
    task_rewards: dict[str, list[float]] = Field(description="Valid rewards of each task, by repetition.")

    @model_validator(mode="after")
    def _shift_or_reason(self) -> Self:
        if (self.shift is None) == (self.shift_reason is None):
            raise ValueError("shift is null exactly where shiftReason says why")
        return self


class SuiteRate(Record):
    """Equal-weight mean of the components' rates; the blocked one is the most that refusals can have cost."""

    value: Share | None
    attempts: Count
    reason: str | None


class IndexRow(Record):
    """The index of one variant."""

    variant: Name
    role: Role
    value: Share | None = Field(description="Equal-weight mean; null unless every component is complete.")
    reason: str | None
    components: dict[str, Share | None]
    tasks: Count
    attempts: Count
    sampling: Interval | None
    error_reason: str | None
    repeat_noise: float | None
    shift: ShiftFigures | None
    shift_reason: str | None
    refusal: SuiteRate
    fallback: SuiteRate
    blocked: SuiteRate
    pooled: Usage = Field(description="Means over all attempts of the suite, not by component.")
    rank: Annotated[int, Field(ge=1)] | None

    @model_validator(mode="after")
    def _known_or_explained(self) -> Self:
        if (self.value is None) != (self.reason is not None):
            raise ValueError("value is null exactly where reason says why")
        return self


class FreezeOrder(Record):
    """What the evidence of a run says of the order: ledger frozen, on record in the journal, first call."""

    run: Name
    frozen_at: datetime | None = Field(description="When the operator first verified the ledger.")
    recorded_at: datetime | None = Field(description="When the journal's first segment was written.")
    recorded_digest: Digest | None = Field(description="The ledger's digest in that segment.")
    first_call_at: datetime | None = Field(description="When the first model call of any try began.")
    calls_undated: Count = Field(description="Attempts that may have called a model, nobody knows when.")
    problems: list[str] = Field(description="Why the order is not shown; empty if it is.")


class StatedFacts(Record):
    """What nobody stated about a ledger's tasks, or stated late, in numbers of tasks."""

    unknown: dict[str, Count] = Field(description="By the fact: licence, difficulty, baseCommit, oracle.")
    labelled_after_results: Count = Field(
        description="Licence or difficulty dated after the first published result."
    )
    oracles: dict[str, Count] = Field(description="Oracles that are proved, accepted, unproved.")
    stale_upstream_digests: Count = Field(description="Published digests that the tasks do not have.")
    assertions_not_read: Count = Field(description="No failing assertion could be read for the clusters.")


class LedgerEntry(Record):
    """A ledger of the report."""

    name: DNSName
    digest: Digest | None
    benchmark: str | None
    version: str | None
    tasks: Count
    clusters: Count
    repetitions: Count
    from_records: bool = Field(description="No ledger file: tasks are those of the records, each a cluster.")
    resources: Digest | None = Field(description="Over what every task's tries asked for.")
    excluded: dict[str, str] = Field(description="Tasks that the plan leaves out of every score, and why.")
    facts: StatedFacts | None = Field(default=None, description="Null without a ledger file.")
    freeze: list[FreezeOrder] = Field(default_factory=list, description="One a run with a run record.")
    task_clusters: dict[str, str] = Field(description="Cluster of each scored task.")


class Exclusion(Record):
    """An attempt without a result, and why."""

    ledger: DNSName
    variant: Name
    task: str
    repetition: Count
    tries: Count
    outcome: OutcomeClass | None = Field(description="Of the last try; null where none is recorded.")
    reason: str


class PriceSheetEntry(Record):
    """The price sheet that costs were computed with."""

    digest: Digest
    valid_on: str
    package: str
    version: str
    reviewed: bool
    unknown_models: list[str]


class Ranking(Record):
    """What the order of the variants is by, and whether there is one."""

    by: Literal["index", "score", "nothing"]
    stopped: bool
    reasons: list[str]


class CodeVersion(Record):
    """The code that computed the report."""

    assay: str
    commit: str | None


class Report(Record):
    """The published figures, with everything that they depend on. The verdict stands first in the file."""

    verdict: Literal["PUBLISHABLE", "NOT PUBLISHABLE"] = Field(
        description="Whether the figures may stand as a ranking."
    )
    reasons_against: list[str] = Field(description="Every reason why they may not.")
    schema_version: SchemaVersion = Field(description="Version of this record's schema.")
    code: CodeVersion
    runs: list[RunRecord]
    records: Count = Field(description="Different records that were scored.")
    baseline: Name | None
    suite: str | None
    ledgers: list[LedgerEntry] = Field(min_length=1)
    prices: PriceSheetEntry | None
    vector: list[Row] = Field(min_length=1)
    index: list[IndexRow]
    ranking: Ranking
    drift: list[Drift]
    references: list[DriftReference] = Field(
        description="What the baseline was tested against on each ledger, as run.json says; empty = unknown."
    )
    earlier_runs: list[EarlierRun] | None = Field(
        description="Every other run of these variants on these ledgers; null where nobody looked."
    )
    exclusions: list[Exclusion]
    first_start: datetime | None

    @property
    def publishable(self) -> bool:
        """Whether the figures may stand as a ranking."""
        return self.verdict == "PUBLISHABLE"

    @model_validator(mode="after")
    def _verdict_follows_from_reasons(self) -> Self:
        if self.publishable == bool(self.reasons_against):
            raise ValueError("verdict is PUBLISHABLE exactly where there are no reasonsAgainst")
        return self

    @model_validator(mode="after")
    def _each_row_once(self) -> Self:
        pairs = [(row.ledger, row.variant) for row in self.vector]
        if len(set(pairs)) < len(pairs):
            raise ValueError("vector: a ledger and variant come twice")
        if unknown := {row.ledger for row in self.vector} - {one.name for one in self.ledgers}:
            raise ValueError(f"vector names ledgers that are not listed: {', '.join(sorted(unknown))}")
        return self
