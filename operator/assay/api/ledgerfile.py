"""`ledger.jsonl`: one header line with the analysis plan, then one canonical-JSON line a task."""

from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from assay.api.base import Digest, ImageByDigest, Record, RelativePath, VersionedRecord
from assay.api.ledger_plan import Percent, Plan, ResourceMultiples, RetryLimits, Seconds, TaskId

__all__ = [
    "UNKNOWN",
    "AcceptedStale",
    "AssertionSource",
    "ClusterRule",
    "FailingAssertions",
    "HarnessTree",
    "IsoDate",
    "LabelledFact",
    "LedgerHeader",
    "NetworkMode",
    "Oracle",
    "OracleKind",
    "OracleProof",
    "Percent",
    "Plan",
    "ResourceMultiples",
    "RetryLimits",
    "Seconds",
    "TaskId",
    "TaskImages",
    "TaskLine",
    "TaskResources",
    "TaskTimeouts",
    "UnknowableField",
    "UpstreamManifest",
    "VerifierMode",
]

IsoDate = Annotated[str, StringConstraints(pattern=r"^\d{4}-\d{2}-\d{2}$")]

UnknowableField = Literal["licence", "difficulty", "baseCommit", "oracle"]
"""Facts that a header may allow to be unknown: a licence or difficulty of value `unknown`, no base commit, an
oracle of kind `unstated`."""

UNKNOWN = "unknown"
"""Value of a labelled fact that nobody stated; allowed only where the header says so."""


class VerifierMode(StrEnum):
    """Where the verifier runs: in the agent's own container, or in a pristine one."""

    SHARED = "shared"
    SEPARATE = "separate"


class NetworkMode(StrEnum):
    """What the agent's phase may reach beside the gateway."""

    NONE = "none"
    INTERNET = "internet"


class HarnessTree(Record):
    """The code that belongs to the ledger: one git tree over the declared paths.

    It is the tree that `git write-tree` gives for an index of exactly the files below `paths`, without
    the ledger, its pin and `rankings/`.
    """

    tree: str = Field(pattern=r"^[0-9a-f]{40}([0-9a-f]{24})?$")
    paths: list[RelativePath] = Field(min_length=1, max_length=100)
    tasks: RelativePath | None = Field(
        default=None, description="Folder of the task folders in the repository; None = not in it."
    )


class AcceptedStale(Record):
    """The owner's explicit word that digests which were published before are no longer those of the tasks."""

    count: Annotated[int, Field(ge=1)] = Field(description="Exactly how many; one more is refused again.")
    reason: str = Field(min_length=1, max_length=500)


class UpstreamManifest(Record):
    """The manifest that was published beside the tasks, and how many of its digests are still true."""

    name: str = Field(min_length=1, max_length=200, description="Name that the manifest gives itself.")
    digest: Digest = Field(description="sha256 over the manifest's bytes.")
    listed: Annotated[int, Field(ge=0)] = Field(description="Tasks that the manifest lists.")
    matched: Annotated[int, Field(ge=0)] = Field(
        description="Tasks of the ledger whose digest is the listed."
    )
    stale: list[TaskId] = Field(default_factory=list, description="Tasks whose digest is another, sorted.")
    unlisted: list[TaskId] = Field(default_factory=list, description="Tasks that the manifest lacks, sorted.")
    accepted_stale: AcceptedStale | None = None


class LedgerHeader(VersionedRecord):
    """First line of a ledger file."""

    benchmark: str = Field(min_length=1, max_length=100)
    version: str = Field(min_length=1, max_length=50)
    harness: HarnessTree | None = Field(
        default=None, description="None = the ledger is bound to no code; `ledger check` then refuses it."
    )
    upstream: UpstreamManifest | None = Field(default=None, description="None = none was found.")
    plan: Plan = Plan()
    allow_unknown: list[UnknowableField] = Field(
        default_factory=list, max_length=4, description="Facts that may be unknown; counted and shown."
    )
    first_result_date: IsoDate | None = Field(
        default=None, description="When the first result on these tasks was published; None = none yet."
    )
    task_count: Annotated[int, Field(ge=1, le=100_000)]


class LabelledFact(Record):
    """A fact that somebody stated: its value, who says so, and since when (ISO date).

    The value `unknown` needs no date, and is allowed only where the ledger's header says so.
    """

    value: str = Field(min_length=1, max_length=100)
    source: str = Field(min_length=1, max_length=500)
    date: IsoDate | None = None

    @model_validator(mode="after")
    def _dated_unless_unknown(self) -> Self:
        if self.date is None and self.value != UNKNOWN:
            raise ValueError('date is missing: since when has this been stated? Write date = "YYYY-MM-DD"')
        return self


class TaskResources(Record):
    """What the task asks for, before the plan's multiples."""

    cpu_millis: Annotated[int, Field(ge=1, le=1_024_000)] = 1000
    memory_mib: Annotated[int, Field(ge=16, le=16_777_216)] = 2048
    storage_mib: Annotated[int, Field(ge=16, le=67_108_864)] = 10_240


class TaskTimeouts(Record):
    """Seconds a phase may take, before the plan's multiple."""

    setup_seconds: Seconds = 600
    agent_seconds: Seconds = 3600
    verifier_seconds: Seconds = 600


class TaskImages(Record):
    """The images that really run, by digest; `published` is the name that the task's own files give."""

    environment: ImageByDigest
    verifier: ImageByDigest | None = None
    published: str | None = Field(default=None, max_length=512)


class OracleKind(StrEnum):
    """What decides the reward."""

    TESTS = "tests"
    """Tests of a test framework, some of which must turn from failing to passing."""
    SCRIPT = "script"
    """A script that looks at what the agent left."""
    JUDGE = "judge"
    """A model that reads the answer."""
    UNSTATED = "unstated"
    """The owner did not say."""


class OracleProof(Record):
    """Runs that show the oracle to be one, on the images of this line."""

    solution_rewards: list[float] = Field(description="Rewards of the reference solution; all are 1.")
    no_change_rewards: list[float] = Field(description="Rewards of an agent that did nothing; all are 0.")
    results_digest: Digest = Field(description="sha256 over the attempt records that were given.")


class Oracle(Record):
    """What decides the reward: its kind, the digest over its files, and proof that it can tell."""

    kind: OracleKind
    digest: Digest = Field(description="sha256 over `path NUL sha256 newline` of every file in tests/.")
    proof: OracleProof | None = None
    accepted_without_proof: str | None = Field(
        default=None, max_length=500, description="The owner's reason to go without proof."
    )


class AssertionSource(StrEnum):
    """Where failing assertions were read."""

    NAMED_TESTS = "namedTests"
    """Bodies of the tests that the task names as fail-to-pass."""
    TEST_PATCH = "testPatch"
    """All assertion lines that the task's test patches add: no named test's body was found."""
    TEST_IDS = "testIds"
    """The names of the fail-to-pass tests themselves: no assertion line was found."""
    UNREADABLE = "unreadable"
    """Nothing could be read; `note` says why."""


class FailingAssertions(Record):
    """What fails before the task is solved, normalised; near-identical ones join tasks to a cluster."""

    source: AssertionSource
    tests: Annotated[int, Field(ge=0)] = Field(default=0, description="Fail-to-pass tests that are named.")
    lines: list[str] = Field(
        default_factory=list, max_length=64, description="At most 64, those of the smallest sha256; sorted."
    )
    found: Annotated[int, Field(ge=0)] = Field(default=0, description="Different lines before that limit.")
    note: str | None = Field(default=None, max_length=300, description="What could not be read.")


class ClusterRule(StrEnum):
    """Why a task is in its cluster."""

    ALONE = "alone"
    SAME_BASE_COMMIT = "sameBaseCommit"
    NEAR_IDENTICAL_ASSERTION = "nearIdenticalAssertion"


class TaskLine(Record):
    """One task of a ledger. `line_digest` covers the canonical JSON of all other fields."""

    id: TaskId
    archive_digest: Digest
    archive_bytes: Annotated[int, Field(ge=1)]
    harbor_digest: Digest
    licence: LabelledFact
    difficulty: LabelledFact
    category: str | None = Field(default=None, max_length=100)
    language: str | None = Field(default=None, max_length=50)
    repository: str | None = Field(default=None, max_length=500)
    base_commit: str | None = Field(default=None, pattern=r"^[0-9a-f]{7,64}$")
    oracle: Oracle | None = None
    images: TaskImages
    verifier_mode: VerifierMode
    crossing_files: list[str] | None = Field(
        default=None,
        max_length=50,
        description="What crosses to a separate verifier that the ledger, not the task, asks for.",
    )
    network: NetworkMode
    resources: TaskResources
    timeouts: TaskTimeouts
    steps: Annotated[int, Field(ge=1, le=100)] = 1
    failing_assertions: FailingAssertions | None = None
    cluster: str = Field(min_length=1, max_length=300)
    cluster_reason: str = Field(min_length=1, max_length=700)
    cluster_rule: ClusterRule | None = None
    cluster_neighbour: TaskId | None = Field(default=None, description="A task that the rule joins it to.")
    line_digest: Digest
