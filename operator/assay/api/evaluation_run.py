"""The EvaluationRun resource: ledgers times variants times repetitions."""

from enum import StrEnum
from typing import Annotated, ClassVar, Literal

from pydantic import ConfigDict, Field, StringConstraints

from assay.api.evaluation_run_status import EvaluationRunStatus
from assay.api.resource import (
    BoundedDigest,
    Bucket,
    DecimalString,
    NameReference,
    Names,
    ObjectKey,
    ObjectMeta,
    PrinterColumn,
    Resource,
    ResourceName,
    SpecPart,
    condition_column,
    list_map,
    rules,
)

MAX_PAIRS = 100
"""Ledgers times variants of one run, so that the vector fits its status."""

DEFAULT_PARALLELISM = 10
DEFAULT_PENDING_SECONDS = 1800
DEFAULT_UPLOAD_SECONDS = 300

PhaseSeconds = Annotated[int, Field(ge=1, le=7 * 24 * 3600)]
LabelKey = Annotated[str, StringConstraints(min_length=1, max_length=317)]
LabelValue = Annotated[str, StringConstraints(max_length=63)]


class Suite(SpecPart):
    """A set of benchmarks that one index is computed over."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=100)] = Field(
        description="name of the suite, e.g. coding-agent-index."
    )
    version: Annotated[str, StringConstraints(min_length=1, max_length=50)] = Field(
        description="version of the suite."
    )


class Budget(SpecPart):
    """What the run may spend. What is reached stops new tries and never a live one; it may be raised."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "has(self.usd) || has(self.tokens) || has(self.attempts)",
                "budget must name at least one of usd, tokens and attempts",
            )
        )
    )

    usd: DecimalString | None = Field(
        default=None,
        description='usd that the finished tries may have cost together, a decimal string such as "500.00".',
    )
    tokens: Annotated[int, Field(ge=1, le=10**15)] | None = Field(
        default=None,
        description="tokens, input and output of all finished tries together; replaced tries count.",
    )
    attempts: Annotated[int, Field(ge=1, le=100_000)] | None = Field(
        default=None,
        description="attempts that may be begun; further tries of one that has begun are not counted.",
    )


class SuspendPolicy(StrEnum):
    """What `suspend` does with live tries."""

    DRAIN = "Drain"
    """They finish."""
    STOP = "Stop"
    """They are ended, with their evidence kept, and made again when the run goes on."""


class RetryLimits(SpecPart):
    """Further tries by class of outcome; absent = the plan's. More than the plan's is refused."""

    infrastructure: Annotated[int, Field(ge=0, le=10)] | None = Field(
        default=None, description="infrastructure failures: further tries an attempt; 0 means none."
    )
    disruption: Annotated[int, Field(ge=0, le=100)] | None = Field(
        default=None,
        description="disruption by preemption or node loss: further tries an attempt; 0 means none.",
    )
    verification: Annotated[int, Field(ge=0, le=10)] | None = Field(
        default=None, description="verification failures: further verifications of the same artefacts."
    )
    refusal: Annotated[int, Field(ge=0, le=50)] | None = Field(
        default=None, description="refusal by provider or model: further tries an attempt; 0 means none."
    )


class RunDeadlines(SpecPart):
    """Seconds that a phase of a try may take. Absent = the ledger's; another value makes it NonStandard."""

    pending_seconds: PhaseSeconds = Field(
        default=DEFAULT_PENDING_SECONDS,
        description="pendingSeconds from the Job's creation until its containers run, image pull included.",
    )
    setup_seconds: PhaseSeconds | None = Field(
        default=None, description="setupSeconds of the agent's setup; absent = the ledger's."
    )
    agent_seconds: PhaseSeconds | None = Field(
        default=None, description="agentSeconds that the agent may work; absent = the ledger's."
    )
    verifier_seconds: PhaseSeconds | None = Field(
        default=None, description="verifierSeconds that the verifier may take; absent = the ledger's."
    )
    upload_seconds: PhaseSeconds = Field(
        default=DEFAULT_UPLOAD_SECONDS, description="uploadSeconds that uploading the evidence may take."
    )


class Toleration(SpecPart):
    """A toleration as pods have it."""

    key: Annotated[str, StringConstraints(max_length=317)] | None = Field(
        default=None, description="key of the taint; absent matches all with operator Exists."
    )
    operator: Literal["Exists", "Equal"] = Field(
        default="Equal", description="operator that relates key and value: Exists or Equal."
    )
    value: Annotated[str, StringConstraints(max_length=63)] | None = Field(
        default=None, description="value of the taint, with operator Equal."
    )
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = Field(
        default=None, description="effect of the taint; absent matches all."
    )
    toleration_seconds: Annotated[int, Field(ge=0, le=7 * 24 * 3600)] | None = Field(
        default=None, description="tolerationSeconds that a NoExecute taint is borne; absent = for ever."
    )


class ImageRewrite(SpecPart):
    """Where a registry's images are mirrored. The digest stays, so what runs stays the same."""

    from_: Annotated[str, StringConstraints(min_length=1, max_length=255)] = Field(
        alias="from",
        description="from is the prefix of image names that is replaced, e.g. docker.io/library/.",
    )
    to: Annotated[str, StringConstraints(min_length=1, max_length=255)] = Field(
        description="to is what it is replaced with, e.g. mirror.example/library/."
    )


class Placement(SpecPart):
    """Where and how attempt pods run."""

    node_selector: Annotated[dict[LabelKey, LabelValue], Field(max_length=16)] = Field(
        default_factory=dict, description="nodeSelector of the attempt pods."
    )
    tolerations: Annotated[list[Toleration], Field(max_length=16, default_factory=list)] = Field(
        json_schema_extra={"x-kubernetes-list-type": "atomic"}, description="tolerations of the attempt pods."
    )
    priority_class_name: Annotated[str, StringConstraints(max_length=253)] | None = Field(
        default=None, description="priorityClassName of the attempt pods."
    )
    runtime_class_name: Annotated[str, StringConstraints(max_length=253)] | None = Field(
        default=None, description="runtimeClassName of the attempt pods, e.g. a sandboxed runtime."
    )
    image_pull_secrets: Annotated[
        list[NameReference], Field(max_length=8, json_schema_extra=list_map("name"), default_factory=list)
    ] = Field(description="imagePullSecrets of the attempt pods.")
    image_rewrites: Annotated[
        list[ImageRewrite], Field(max_length=16, json_schema_extra=list_map("from"), default_factory=list)
    ] = Field(description="imageRewrites for mirrors; the longest prefix that matches wins.")


class S3Storage(SpecPart):
    """A bucket of the object store that gateway and operator are configured with."""

    bucket: Bucket = Field(description="bucket that takes the evidence.")
    prefix: Annotated[str, StringConstraints(pattern=r"^([A-Za-z0-9._-]+/)*$", max_length=300)] = Field(
        default="runs/", description="prefix of every key, empty or ending in a slash."
    )


class Storage(SpecPart):
    """Where the evidence goes."""

    s3: S3Storage = Field(
        description="s3 names the bucket; endpoint and region are the gateway's configuration."
    )


class Retry(SpecPart):
    """Asks a finished run to go on. Each higher value asks once more and makes a new report revision."""

    unscored_only: Annotated[int, Field(ge=0, le=1000)] = Field(
        default=0,
        description="unscoredOnly: raise it by one to try again the attempts that have no score; "
        "scored ones, zeros too, are left untouched.",
    )


class Reuse(SpecPart):
    """Results of earlier runs that may stand in for new tries."""

    runs: Annotated[
        list[NameReference],
        Field(min_length=1, max_length=10, json_schema_extra=list_map("name")),
    ] = Field(
        description="runs whose results are reused where ledger digest, fingerprint and plan are the same."
    )


class PriceSheetObject(SpecPart):
    """A price sheet in the object store that the operator is configured with."""

    bucket: Bucket = Field(description="bucket that holds the price sheet.")
    key: ObjectKey = Field(description="key of the price sheet.")


class PriceSheetConfigMap(SpecPart):
    """A price sheet in a ConfigMap of the same namespace."""

    name: ResourceName = Field(description="name of the ConfigMap.")
    key: Annotated[str, StringConstraints(pattern=r"^[-._a-zA-Z0-9]+$", max_length=253)] = Field(
        default="prices.json", description="key in the ConfigMap's data."
    )


class PriceSheetSource(SpecPart):
    """Where the price sheet is: exactly one place."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            ("has(self.s3) != has(self.configMap)", "source must name exactly one of s3 and configMap")
        )
    )

    s3: PriceSheetObject | None = Field(default=None, description="s3 names an object in the object store.")
    config_map: PriceSheetConfigMap | None = Field(
        default=None, description="configMap names a key of a ConfigMap in the same namespace."
    )


class PriceSheetReference(SpecPart):
    """The prices that costs are computed with, as `assay prices build` made them."""

    digest: BoundedDigest = Field(description="digest of the sheet, as `assay prices build` prints it.")
    source: PriceSheetSource = Field(description="source is where the operator reads the sheet.")


class EvaluationRunSpec(SpecPart):
    """What is to be measured."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                f"self.ledgers.size() * self.variants.size() <= {MAX_PAIRS}",
                f"ledgers times variants must be at most {MAX_PAIRS}; split the run",
            ),
            (
                "!has(self.baseline) || self.variants.exists(v, v.name == self.baseline.name)",
                "baseline must be one of variants, so that it runs beside them",
            ),
        )
    )

    ledgers: Annotated[
        list[NameReference], Field(min_length=1, max_length=20, json_schema_extra=list_map("name"))
    ] = Field(description="ledgers to measure on, Ledgers of the same namespace.")
    variants: Annotated[
        list[NameReference], Field(min_length=1, max_length=50, json_schema_extra=list_map("name"))
    ] = Field(description="variants to measure, AgentVariants of the same namespace.")
    baseline: NameReference | None = Field(
        default=None,
        description="baseline is the frozen control variant, one of variants; absent = not Publishable.",
    )
    suite: Suite | None = Field(default=None, description="suite whose index is computed.")
    repetitions: Annotated[int, Field(ge=1, le=100)] | None = Field(
        default=None,
        description="repetitions of each task and variant; absent = the plan's, another is NonStandard.",
    )
    parallelism: Annotated[int, Field(ge=1, le=500)] = Field(
        default=DEFAULT_PARALLELISM, description="parallelism is how many tries may be live at once."
    )
    budget: Budget | None = Field(
        default=None, description="budget of the run; absent = no limit. It may be raised after the start."
    )
    price_sheet: PriceSheetReference | None = Field(
        default=None,
        description="priceSheet that costs are computed with; absent = costs are unknown.",
    )
    retry_limits: RetryLimits | None = Field(
        default=None, description="retryLimits below the plan's; absent = the plan's."
    )
    deadlines: RunDeadlines = Field(default_factory=RunDeadlines, description="deadlines of a try's phases.")
    placement: Placement | None = Field(
        default=None, description="placement of the attempt pods; absent = anywhere."
    )
    storage: Storage = Field(description="storage that takes the evidence.")
    min_coverage_percent: Annotated[int, Field(ge=0, le=100)] = Field(
        default=100,
        description="minCoveragePercent is the share of attempts that must have a score; "
        "a run that ends below it is Failed.",
    )
    suspend: bool = Field(
        default=False,
        description="suspend stops new tries; suspendPolicy says what live ones do; may be changed any time.",
    )
    suspend_policy: SuspendPolicy = Field(
        default=SuspendPolicy.DRAIN,
        description="suspendPolicy of live tries: Drain lets them finish, Stop ends them and keeps their "
        "evidence.",
    )
    queue_name: Annotated[str, StringConstraints(min_length=1, max_length=63)] | None = Field(
        default=None, description="queueName of Kueue's LocalQueue; Jobs are then created suspended."
    )
    retry: Retry = Field(default_factory=Retry, description="retry asks a finished run to go on.")
    ttl_seconds_after_finished: Annotated[int, Field(ge=0, le=366 * 24 * 3600)] | None = Field(
        default=None,
        description="ttlSecondsAfterFinished after which the run is deleted; its evidence stays. "
        "Absent = never.",
    )
    reuse: Reuse | None = Field(default=None, description="reuse of earlier runs' results; absent = none.")


MUTABLE_FIELDS = frozenset(
    {"suspend", "suspendPolicy", "parallelism", "budget", "retry", "ttlSecondsAfterFinished"}
)
"""Fields of the spec that may change after the run has started (docs/reference)."""


def _frozen_after_start(name: str, *, required: bool) -> tuple[str, str]:
    """The rule that one field of the spec does not change, appear or vanish after the start."""
    started = "!has(oldSelf.status) || !has(oldSelf.status.startedAt)"
    same = f"self.spec.{name} == oldSelf.spec.{name}"
    if not required:
        same = f"has(self.spec.{name}) == has(oldSelf.spec.{name}) && (!has(self.spec.{name}) || {same})"
    return (
        f"{started} || ({same})",
        f"spec.{name} cannot change after the run has started: delete the run and create a new one",
    )


def _frozen_rules() -> tuple[tuple[str, str], ...]:
    found = []
    for name, field in EvaluationRunSpec.model_fields.items():
        alias = field.alias or name
        if alias not in MUTABLE_FIELDS:
            found.append(_frozen_after_start(alias, required=field.is_required()))
    return tuple(found)


class EvaluationRun(Resource):
    """An EvaluationRun measures variants on ledgers and keeps the evidence of every try."""

    names: ClassVar[Names] = Names(
        kind="EvaluationRun", plural="evaluationruns", singular="evaluationrun", short="evalrun"
    )
    columns: ClassVar[tuple[PrinterColumn, ...]] = (
        condition_column("Complete", "Whether every attempt is recorded."),
        PrinterColumn(
            name="Recorded",
            type="integer",
            path=".status.attempts.recorded",
            description="Attempts with a score.",
        ),
        PrinterColumn(
            name="Planned",
            type="integer",
            path=".status.attempts.planned",
            description="Attempts that the run consists of.",
        ),
        PrinterColumn(
            name="Scores", type="string", path=".status.scores", description="Strict scores with their n."
        ),
        PrinterColumn(
            name="Why",
            type="string",
            path='.status.conditions[?(@.type=="Progressing")].reason',
            description="What the run is doing or waiting for.",
        ),
        condition_column("Publishable", "Whether the figures may stand as a ranking.", priority=1),
        PrinterColumn(
            name="Live", type="integer", path=".status.attempts.live", description="Live tries.", priority=1
        ),
        PrinterColumn(
            name="Invalid",
            type="integer",
            path=".status.attempts.invalid",
            description="Attempts without a score.",
            priority=1,
        ),
    )
    root_rules: ClassVar[tuple[tuple[str, str], ...]] = (
        *_frozen_rules(),
        (
            "!has(oldSelf.status) || !has(oldSelf.status.startedAt) || "
            "(has(self.status) && has(self.status.startedAt))",
            "status.startedAt cannot be removed",
        ),
    )

    api_version: Literal["assay.dev/v1alpha1"] = "assay.dev/v1alpha1"
    kind: Literal["EvaluationRun"] = "EvaluationRun"
    metadata: ObjectMeta
    spec: EvaluationRunSpec = Field(
        description="spec is what is to be measured; after the start only suspend, suspendPolicy, "
        "parallelism, budget, retry and ttlSecondsAfterFinished may change."
    )
    status: EvaluationRunStatus = Field(
        default_factory=EvaluationRunStatus, description="status is how far the run is and what came out."
    )
