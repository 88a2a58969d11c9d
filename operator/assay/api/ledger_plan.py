"""The analysis plan in a ledger's header: how its tasks are measured, fixed before any result."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from assay.api.base import Digest, Record

TaskId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]*$", max_length=250)]
Percent = Annotated[int, Field(ge=1, le=10_000)]
Seconds = Annotated[int, Field(ge=1, le=7 * 24 * 3600)]
Probability = Annotated[str, StringConstraints(pattern=r"^0\.\d{1,6}$")]
"""A probability as a decimal text, e.g. `0.01`: its digits are part of what is frozen."""


class ResourceMultiples(Record):
    """Kubernetes requests and limits as whole percent of what the task asks for."""

    request_percent: Percent = 100
    limit_percent: Percent = 100


class RetryLimits(Record):
    """How many further tries a class of outcome may have; 0 means none."""

    infrastructure: Annotated[int, Field(ge=0, le=10)] = 3
    disruption: Annotated[int, Field(ge=0, le=100)] = 20
    verification: Annotated[int, Field(ge=0, le=10)] = 3
    refusal: Annotated[int, Field(ge=0, le=50)] = 10


class PlannedExclusion(Record):
    """A task of the ledger that takes no part in the score, and why; decided before any result."""

    task: TaskId
    reason: str = Field(min_length=1, max_length=500)


class PlannedBaseline(Record):
    """The control variant: its fingerprint is what `AgentVariant.status.fingerprint` must be."""

    name: str = Field(min_length=1, max_length=253)
    fingerprint: Digest


class PlannedJudge(Record):
    """A model that reads attempts: what it decides, with which prompt, by how many votes."""

    name: str = Field(min_length=1, max_length=100)
    criterion: str = Field(min_length=1, max_length=100)
    model: str = Field(min_length=1, max_length=200)
    prompt_digest: Digest
    votes: Annotated[int, Field(ge=1, le=99)] = 1


class RefusalRules(Record):
    """What a blocked or refused attempt counts as once its re-runs are used up."""

    after_reruns: Literal["countsAsZero", "noResult"] = "countsAsZero"


class PricePolicy(Record):
    """How costs are made: list prices of one sheet; a model without a price has an unknown cost, never 0."""

    prices: Literal["listPrices"] = "listPrices"
    sheet_digest: Digest | None = Field(default=None, description="Absent = the run names its sheet.")


class Plan(Record):
    """The analysis plan. A run that departs from a field of it is NonStandard in that field."""

    primary_metric: str = Field(default="reward", max_length=64)
    repetitions: Annotated[int, Field(ge=1, le=100)] = 1
    timeout_percent: Percent = 100
    resources: ResourceMultiples = ResourceMultiples()
    retry_limits: RetryLimits = RetryLimits()
    rate_limited_after_output: Literal["noResult", "rerun"] | None = Field(
        default=None,
        description="An attempt whose provider limited the rate after the model had produced output. Absent "
        "or noResult = it ends without a result: a further try would be a second sample.",
    )
    exclusions: list[PlannedExclusion] = Field(default_factory=list, max_length=10_000)
    drift_alpha: Probability = Field(
        default="0.01", description="The ranking is frozen where the baseline's drift has a smaller p-value."
    )
    baseline: PlannedBaseline | None = None
    refusals: RefusalRules = RefusalRules()
    judges: list[PlannedJudge] = Field(default_factory=list, max_length=20)
    verifier_mode: Literal["shared", "separate"] | None = Field(
        default=None, description="Mode of every task; absent = each task line says its own."
    )
    price_policy: PricePolicy = PricePolicy()
