"""The Ledger resource: names a frozen ledger file, and tells whether its bytes are what they must be."""

from enum import StrEnum
from typing import Annotated, ClassVar, Literal

from pydantic import ConfigDict, Field, StringConstraints

from assay.api.base import ImageByDigest
from assay.api.conditions import Timestamp
from assay.api.resource import (
    BoundedDigest,
    Bucket,
    Conditions,
    Count,
    Names,
    ObjectKey,
    ObjectMeta,
    PrinterColumn,
    Resource,
    SpecPart,
    StatusPart,
    condition_column,
    list_map,
    rules,
)


class LedgerCondition(StrEnum):
    """Condition types of a Ledger."""

    VERIFIED = "Verified"
    """The digest of the file's bytes equals `spec.digest` and every line is valid."""
    FROZEN = "Frozen"
    """The ledger was verified before any run used it; `status.frozenAt` says when."""


class LedgerReason(StrEnum):
    """Reasons of a Ledger's conditions."""

    DIGEST_MATCHES = "DigestMatches"
    """The bytes have the digest that the spec states, and are a valid ledger file."""
    DIGEST_MISMATCH = "DigestMismatch"
    """The bytes differ from `spec.digest`; the message holds both digests."""
    SOURCE_NOT_FOUND = "SourceNotFound"
    """The S3 object or the ConfigMap's key does not exist."""
    SOURCE_UNAVAILABLE = "SourceUnavailable"
    """Storage cannot be reached or refuses the operator; tried again."""
    INVALID_FILE = "InvalidFile"
    """The bytes match the digest but are not a valid ledger; the message names line and field."""
    BENCHMARK_MISMATCH = "BenchmarkMismatch"
    """The file's header names another benchmark or version than `spec.benchmark`."""
    FIRST_VERIFIED = "FirstVerified"
    """Frozen: the ledger has been verified; `status.frozenAt` says when for the first time."""
    NOT_VERIFIED = "NotVerified"
    """Not frozen: the ledger has never been verified."""


class Benchmark(SpecPart):
    """A benchmark and its version, as the ledger's header states them."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=100)] = Field(
        description="name of the benchmark; must equal the one in the ledger's header."
    )
    version: Annotated[str, StringConstraints(min_length=1, max_length=50)] = Field(
        description="version of the benchmark; must equal the one in the ledger's header."
    )


class S3Source(SpecPart):
    """A ledger file in the object store that the operator is configured with."""

    bucket: Bucket = Field(description="bucket that holds the ledger file.")
    key: ObjectKey = Field(description="key of the ledger file, as `assay ledger publish` prints it.")


class ConfigMapSource(SpecPart):
    """A ledger file in a ConfigMap of the same namespace; for ledgers below 1 MiB."""

    name: Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", max_length=253)] = (
        Field(description="name of the ConfigMap.")
    )
    key: Annotated[str, StringConstraints(pattern=r"^[-._a-zA-Z0-9]+$", max_length=253)] = Field(
        default="ledger.jsonl", description="key in the ConfigMap's data."
    )


class LedgerSource(SpecPart):
    """Where the ledger file is: exactly one place."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            ("has(self.s3) != has(self.configMap)", "source must name exactly one of s3 and configMap")
        )
    )

    s3: S3Source | None = Field(default=None, description="s3 names an object in the object store.")
    config_map: ConfigMapSource | None = Field(
        default=None, description="configMap names a key of a ConfigMap in the same namespace."
    )


class Harness(SpecPart):
    """The code that the benchmark is run with."""

    repository: Annotated[str, StringConstraints(min_length=1, max_length=500)] = Field(
        description="repository that holds harness and ledger, as a URL."
    )
    commit: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}([0-9a-f]{24})?$", max_length=64)] = (
        Field(description="commit of the repository at which the ledger and its pin lie.")
    )
    runner_image: ImageByDigest | None = Field(
        default=None,
        description="runnerImage is the benchmark's own runner image by digest; absent = the operator's own.",
    )


class LedgerSpec(SpecPart):
    """What the ledger is. Immutable: another task set is another Ledger."""

    benchmark: Benchmark = Field(description="benchmark that the ledger freezes.")
    digest: BoundedDigest = Field(description="digest is sha256 over the bytes of the ledger file.")
    source: LedgerSource = Field(description="source is where the operator reads the file.")
    harness: Harness | None = Field(
        default=None,
        description="harness is the code that belongs to the ledger, for whoever repeats the run.",
    )


class ValueCount(StatusPart):
    """How many tasks state a value."""

    value: Annotated[str, StringConstraints(max_length=100)] = Field(description="value that tasks state.")
    tasks: Count = Field(description="tasks that state it.")


class LedgerCounts(StatusPart):
    """What the ledger file holds."""

    tasks: Count = Field(description="tasks in the ledger.")
    clusters: Count = Field(description="clusters of tasks that count as one piece of evidence each.")
    repositories: Count = Field(default=0, description="repositories that the tasks come from.")
    licences: Annotated[
        list[ValueCount], Field(max_length=50, json_schema_extra=list_map("value"), default_factory=list)
    ] = Field(description="licences of the tasks, most frequent first; at most 50.")
    difficulties: Annotated[
        list[ValueCount], Field(max_length=20, json_schema_extra=list_map("value"), default_factory=list)
    ] = Field(description="difficulties of the tasks, most frequent first; at most 20.")
    unknowns: Count = Field(default=0, description="unknowns is how many facts are stated as unknown.")
    labelled_after_results: Count = Field(
        default=0,
        description="labelledAfterResults is how many tasks have a licence or difficulty that is dated after "
        "the first published result.",
    )


class LedgerStatus(StatusPart):
    """What the operator found."""

    observed_generation: Count = Field(
        default=0, description="observedGeneration is the metadata.generation that this status is of."
    )
    conditions: Conditions = Field(
        default_factory=list, description="conditions are Verified and Frozen.", max_length=16
    )
    observed_digest: BoundedDigest | None = Field(
        default=None, description="observedDigest is the digest of the bytes that the operator read last."
    )
    frozen_at: Timestamp | None = Field(
        default=None, description="frozenAt is when the ledger was first verified; it never moves."
    )
    counts: LedgerCounts | None = Field(default=None, description="counts of tasks, clusters and labels.")


class Ledger(Resource):
    """A Ledger names the frozen task set of one benchmark version, by the digest of its ledger file."""

    names: ClassVar[Names] = Names(kind="Ledger", plural="ledgers", singular="ledger", short="ledg")
    columns: ClassVar[tuple[PrinterColumn, ...]] = (
        PrinterColumn(
            name="Benchmark", type="string", path=".spec.benchmark.name", description="Name of the benchmark."
        ),
        PrinterColumn(
            name="Version",
            type="string",
            path=".spec.benchmark.version",
            description="Version of the benchmark.",
        ),
        condition_column("Verified", "Whether the file's bytes have the digest that the spec states."),
        PrinterColumn(
            name="Tasks", type="integer", path=".status.counts.tasks", description="Tasks in the ledger."
        ),
        condition_column("Frozen", "Whether it was verified before any run.", priority=1),
    )
    root_rules: ClassVar[tuple[tuple[str, str], ...]] = (
        (
            "self.spec == oldSelf.spec",
            "spec is immutable: a changed task set is another ledger; create a Ledger with a new name",
        ),
        (
            "!has(oldSelf.status) || !has(oldSelf.status.frozenAt) || (has(self.status) && "
            "has(self.status.frozenAt) && self.status.frozenAt == oldSelf.status.frozenAt)",
            "status.frozenAt never moves",
        ),
    )

    api_version: Literal["assay.dev/v1alpha1"] = "assay.dev/v1alpha1"
    kind: Literal["Ledger"] = "Ledger"
    metadata: ObjectMeta
    spec: LedgerSpec = Field(description="spec is the ledger's identity; immutable.")
    status: LedgerStatus = Field(
        default_factory=LedgerStatus, description="status is what the operator found."
    )
