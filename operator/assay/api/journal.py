"""The journal of a run: segments of finished tries, each naming the digest of the one before it.

A segment is a gzip file of JSON lines: a `SegmentHeader`, then one `JournalEntry` for each finished try. Its
digest is the sha256 of the stored bytes, so `sha256sum` checks it. docs/journal.md describes the whole.
"""

from datetime import datetime
from decimal import Decimal
from typing import Annotated

from pydantic import Field

from assay.api.base import Digest, DNSLabel, DNSName, Record, VersionedRecord
from assay.api.evidence import Count, TokenCounts
from assay.api.ledgerfile import TaskId
from assay.api.outcome import OutcomeClass

Sequence = Annotated[int, Field(ge=1, le=99_999_999)]
Epoch = Annotated[int, Field(ge=1, le=999_999_999_999)]
RunUid = Annotated[str, Field(pattern=r"^[0-9a-f-]{36}$")]
Seconds = float

MAX_LEVEL = 4
"""32 segments are compacted into one of the next level: 33 million segments before a level could overflow."""


class SegmentRef(Record):
    """A segment: its name below `journal/segments/` and the digest of its stored bytes."""

    name: str = Field(pattern=r"^[0-4]/[0-9]{8}-[0-9]{12}\.jsonl\.gz$")
    digest: Digest


class OpeningLedger(Record):
    """A ledger of the run, frozen before its first Job."""

    name: DNSName
    digest: Digest = Field(description="Of the ledger file's bytes.")
    plan_digest: Digest = Field(description="Of the plan in the ledger's header.")
    repetitions: Annotated[int, Field(ge=1, le=9999)]


class OpeningVariant(Record):
    """A variant of the run."""

    name: DNSName
    fingerprint: Digest


class Opening(Record):
    """What the run measures, on record before its first Job; only the first segment has it."""

    run_name: DNSName
    namespace: DNSLabel
    ledgers: list[OpeningLedger] = Field(min_length=1, max_length=20)
    variants: list[OpeningVariant] = Field(min_length=1, max_length=50)
    baseline: DNSName | None = None


class Compaction(Record):
    """The segment repeats the entries of all segments from `first` up to the one before it, in order."""

    first: Sequence
    before: SegmentRef | None = Field(default=None, description="The segment before `first`; None = none.")


class SegmentHeader(VersionedRecord):
    """First line of a segment."""

    run_uid: RunUid
    sequence: Sequence = Field(description="1 for the first segment, then one more each.")
    epoch: Epoch = Field(
        description="Of the operator process that wrote it; later processes have higher ones."
    )
    level: Annotated[int, Field(ge=0, le=MAX_LEVEL)] = 0
    previous: SegmentRef | None = Field(default=None, description="None in the first segment alone.")
    written_at: datetime
    entries: Count
    opening: Opening | None = None
    compaction: Compaction | None = Field(default=None, description="None where the entries are new.")


class JournalEntry(Record):
    """One finished try, as the operator classified it once and for all.

    Whatever is absent is unknown. The manifest in S3, named by its digest, holds everything else.
    """

    ledger: DNSName
    task: TaskId
    variant: DNSName
    repetition: Annotated[int, Field(ge=0, le=9999)]
    try_number: Annotated[int, Field(ge=1, le=9999)]
    job_name: DNSLabel
    pod_uid: str = Field(default="", max_length=36)
    outcome: OutcomeClass
    reason: str = Field(default="", max_length=1000)
    ended_at: datetime
    reward: Annotated[float, Field(ge=0, le=1)] | None = None
    agent_timed_out: bool = False
    setup_seconds: Seconds | None = None
    agent_seconds: Seconds | None = None
    verifier_seconds: Seconds | None = None
    upload_seconds: Seconds | None = None
    total_seconds: Seconds | None = None
    tokens: TokenCounts = TokenCounts()
    model_calls: Count | None = None
    harbor_version: str = Field(default="", max_length=50)
    harness_commit: str = Field(default="", max_length=40)
    manifest_digest: str = Field(default="", pattern=r"^(sha256:[0-9a-f]{64})?$")
    images: dict[str, str] = Field(default_factory=dict, max_length=32)
    flags: list[str] = Field(default_factory=list, max_length=50)
    verifies: Annotated[int, Field(ge=1, le=9999)] | None = Field(
        default=None, description="Number of the try that this one judged again, without an agent."
    )
    artifacts_digest: str = Field(
        default="",
        pattern=r"^(sha256:[0-9a-f]{64})?$",
        description="Of the artefacts, where they wait for a verdict.",
    )
    graded_as: OutcomeClass | None = Field(default=None, description="Class of the attempt with a verdict.")
    cost_usd: Annotated[Decimal, Field(ge=0, max_digits=24, decimal_places=16)] | None = Field(
        default=None,
        description="Cost of its calls by the run's price sheet, where the run has a budget in money.",
    )


class Fence(VersionedRecord):
    """`journal/fences/EPOCH.json`: a process of this epoch has taken the journal over from all lower ones."""

    run_uid: RunUid
    epoch: Epoch
    holder: str = Field(max_length=100, description="Pod UID of the operator.")
    taken_at: datetime


class LedgerRun(VersionedRecord):
    """`index/LEDGER-DIGEST/RUN-UID.json`: a run that used the ledger, written before its first Job."""

    run_uid: RunUid
    run_name: DNSName
    namespace: DNSLabel
    ledger: OpeningLedger
    variants: list[OpeningVariant] = Field(min_length=1, max_length=50)
    baseline: DNSName | None = None
    started_at: datetime
    journal: str = Field(max_length=400, description="Key prefix of the run's journal in the same bucket.")
