"""The build file: what a directory of tasks does not say, stated by the benchmark's owner in TOML.

Keys are snake_case, as in Harbor's own files. A complete example is `examples/ledger-build.toml`.
"""

from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from assay.api.base import ImageByDigest, RelativePath, SchemaVersion
from assay.api.ledgerfile import (
    AcceptedStale,
    IsoDate,
    LabelledFact,
    OracleKind,
    Plan,
    Seconds,
    UnknowableField,
    VerifierMode,
)

CommitHash = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{7,64}$")]
ContainerPath = Annotated[str, StringConstraints(pattern=r"^/[^\x00]*[^/\x00]$", max_length=500)]
ImageName = Annotated[str, StringConstraints(pattern=r"^[^@\s]+(@sha256:[0-9a-f]{64})?$", max_length=512)]


class BuildPart(BaseModel):
    """A table of the build file; keys that it does not know are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class StatedImages(BuildPart):
    """The images of one task where its own files do not name them, or name others."""

    environment: ImageByDigest | None = Field(
        default=None, description="Image that the agent works in, by digest."
    )
    verifier: ImageByDigest | None = Field(
        default=None, description="Image that the verifier runs in, by digest; for separate mode."
    )


class StatedTimeouts(BuildPart):
    """Seconds of phases that the task's own file leaves out."""

    setup_seconds: Seconds | None = Field(default=None, description="Start of the environment and setup.")
    agent_seconds: Seconds | None = Field(default=None, description="Time that the agent may work.")
    verifier_seconds: Seconds | None = Field(default=None, description="Time that the verifier may take.")


class StatedVerifier(BuildPart):
    """The verifier's place where the ledger asks for another than the task does."""

    mode: VerifierMode = Field(
        description="`separate` runs the verifier of a task that says `shared` in a pristine container."
    )
    crossing_files: Annotated[list[ContainerPath], Field(max_length=50)] = Field(
        default_factory=list,
        description="Files that cross from the agent's container to the verifier's, and nothing else does.",
    )


class TaskFacts(BuildPart):
    """Facts about a task. In `[defaults]` for all tasks, in `[tasks."<id>"]` for one."""

    licence: LabelledFact | None = Field(
        default=None, description="Licence of the task's content: value (an SPDX expression), source, date."
    )
    difficulty: LabelledFact | None = Field(
        default=None, description="Difficulty: value, source (who says so), date (since when)."
    )
    category: str | None = Field(
        default=None, max_length=100, description="Category; absent = the task's own metadata."
    )
    language: str | None = Field(
        default=None, max_length=50, description="Programming language; absent = the task's own metadata."
    )
    repository: str | None = Field(
        default=None, max_length=500, description="Repository URL; absent = the task's own metadata."
    )
    base_commit: CommitHash | None = Field(
        default=None, description="Commit that the task starts from; absent = the task's own metadata."
    )
    oracle_kind: OracleKind | None = Field(
        default=None,
        description="What decides the reward: tests, script or judge; absent = unknown, if that is allowed.",
    )
    accept_without_proof: str | None = Field(
        default=None,
        min_length=1,
        max_length=500,
        description="Why the task may be published without runs that prove its oracle; see `--oracle-runs`.",
    )
    verifier: StatedVerifier | None = Field(
        default=None, description="Verifier mode, where the ledger asks for another than the task."
    )
    images: StatedImages = Field(default=StatedImages(), description="Images by digest, for this task.")
    timeouts: StatedTimeouts = Field(
        default=StatedTimeouts(), description="Timeouts where the task's own file states none."
    )


class StatedHarness(BuildPart):
    """The code that belongs to the ledger, as paths of the repository that holds both."""

    paths: list[RelativePath] = Field(
        min_length=1, max_length=100, description="Files and folders whose git tree the header records."
    )
    tasks: RelativePath | None = Field(
        default=None,
        description="Folder of the task folders in the repository, so that `check` can name a task.",
    )


class StatedUpstream(BuildPart):
    """The manifest that was published beside the tasks."""

    manifest: RelativePath = Field(
        default="dataset.toml", description="Its path, relative to the folder of tasks."
    )
    accept_stale: AcceptedStale | None = Field(
        default=None, description="The explicit line that accepts digests which are no longer true."
    )


class LedgerBuildFile(BuildPart):
    """What `assay ledger build --build-file` reads."""

    schema_version: SchemaVersion = Field(default=1, description="Version of the build file's schema.")
    benchmark: str = Field(min_length=1, max_length=100, description="Name of the benchmark.")
    version: str = Field(min_length=1, max_length=50, description="Version of the benchmark.")
    include: Annotated[list[str], Field(max_length=100_000)] | None = Field(
        default=None,
        description="Ids or folder names of the ledger's tasks; absent = every folder with a task.toml.",
    )
    allow_unknown: list[UnknowableField] = Field(
        default_factory=list,
        description='Facts that may be unknown, e.g. ["difficulty"]; counted and shown in reports.',
    )
    task_labels_date: IsoDate | None = Field(
        default=None,
        description="Since when the licences and difficulties in the tasks' own files have stood there.",
    )
    first_result_date: IsoDate | None = Field(
        default=None,
        description="When the first result on these tasks was published: later labels are counted as such.",
    )
    harness: StatedHarness | None = Field(
        default=None, description="The code that is frozen with the ledger; needed by `ledger check`."
    )
    upstream: StatedUpstream = Field(
        default=StatedUpstream(), description="The manifest that was published beside the tasks."
    )
    plan: Plan = Field(default=Plan(), description="The analysis plan, fixed before any result.")
    defaults: TaskFacts = Field(
        default=TaskFacts(), description="Facts that hold for every task; accept_without_proof is none."
    )
    images: dict[ImageName, ImageByDigest] = Field(
        default_factory=dict,
        description="From the image name that task files give to the image that really runs, by digest.",
    )
    tasks: dict[str, TaskFacts] = Field(
        default_factory=dict,
        description="Facts of single tasks by id or folder name; they win over defaults.",
    )

    @model_validator(mode="after")
    def _oracles_are_accepted_one_by_one(self) -> Self:
        if self.defaults.accept_without_proof is not None:
            raise ValueError(
                "accept_without_proof in [defaults] would accept oracles that nobody looked at: write it in "
                '[tasks."<id>"] of each'
            )
        return self


ImageMap = dict[str, str]
"""`--images FILE`: JSON object from a published image name to `name@sha256:…`; wins over `[images]`."""
