"""What a try leaves in S3, and the hint that it leaves in its termination message."""

from datetime import datetime
from typing import Annotated, Any

from pydantic import Field

from assay.api.base import Digest, Record, RelativePath, VersionedRecord
from assay.api.outcome import OutcomeClass
from assay.api.tryspec import AttemptIdentity, ModelRole, ProviderAPI, VerifyOnly

TERMINATION_MESSAGE_BYTES = 1000
"""The kubelet shares 12 KiB among a pod's containers; beyond this it may cut (cases.md E15)."""

ARTIFACTS = "artifacts.tar"
"""Path of what crossed to a separate verifier, byte for byte, so that it can be judged again."""

PIN_EXTERNAL = "PinExternal"
"""The runner's note that its image carries no pin, so that the ledger's digest rests on the operator alone.

It says nothing about the try, so it does not flag one.
"""

Count = Annotated[int, Field(ge=0)]


class TokenCounts(Record):
    """Tokens of one or more calls, as metered on the wire; None is unknown, never zero.

    `input` includes cache reads and cache writes; `output` includes reasoning.
    """

    input: Count | None = None
    cache_read: Count | None = None
    cache_write_5m: Count | None = None
    cache_write_1h: Count | None = None
    reasoning: Count | None = None
    output: Count | None = None


class CallRecord(VersionedRecord):
    """One call to a model, one line of `calls/NNNNNN.jsonl`."""

    sequence: Count
    role: ModelRole | None = None
    api: ProviderAPI
    path: str
    started_at: datetime
    latency_seconds: Annotated[float, Field(ge=0)]
    streamed: bool
    status: int = Field(description="HTTP status of the answer; 0 when there was none.")
    model_asked: str | None = None
    model_answered: str | None = None
    settings: dict[str, Any] = Field(default_factory=dict)
    tokens: TokenCounts = TokenCounts()
    stop_reason: str | None = None
    refusal: str | None = Field(default=None, description="The marker by which a refusal was recognised.")
    undeclared: list[str] = Field(default_factory=list, description="Models or settings the variant lacks.")
    blocked_tools: list[str] = Field(default_factory=list, description="Provider-hosted tools refused.")
    error: str | None = None
    request: Any = None
    response: Any = None


class PhaseSeconds(Record):
    """Wall seconds of each phase; None when the phase did not happen."""

    isolation: float | None = None
    setup: float | None = None
    agent: float | None = None
    verifier: float | None = None
    upload: float | None = None
    trial: float | None = Field(default=None, description="Harbor's own trial time.")


class HarnessVersion(Record):
    """The code that ran the try."""

    harbor: str = Field(max_length=20)
    assay: str = Field(max_length=50)
    commit: str | None = Field(
        default=None, max_length=40, description="Commit of Assay that the runner image was built of."
    )
    ledger_pin: str | None = Field(
        default=None,
        max_length=200,
        description="Digest of a ledger as the runner's image carries it; None = the image has no pin.",
    )


class IsolationProbe(Record):
    """One address that must not be reachable, and what happened when it was tried."""

    address: str
    reachable: bool
    attempts: Count
    failed_for_seconds: float


class TryResult(Record):
    """What the runner found out. Its class is a proposal; the operator's table decides."""

    outcome: OutcomeClass
    reason: str = Field(default="", max_length=1000, description="The cause, in words a user understands.")
    reward: float | None = Field(default=None, ge=0, le=1)
    rewards: dict[str, float] = Field(default_factory=dict, description="All figures of the verifier.")
    agent_timed_out: bool = False
    agent_version: str | None = None
    exception_type: str | None = Field(default=None, max_length=200)
    exception_phase: str | None = Field(default=None, max_length=50)
    started_at: datetime
    finished_at: datetime
    seconds: PhaseSeconds = PhaseSeconds()
    tokens: TokenCounts = TokenCounts()
    model_calls: Count | None = Field(default=None, description="None when the variant declares no model.")
    harness: HarnessVersion
    isolation: list[IsolationProbe] = Field(default_factory=list)
    flags: list[str] = Field(default_factory=list, description="E.g. UndeclaredConfig, tamperSuspected.")
    graded_as: OutcomeClass | None = Field(
        default=None,
        description="What the class would have been with a verdict, where the agent's phase ended and no "
        "verdict came.",
    )


class EvidenceFile(Record):
    """One object of a try, by its path under the try's prefix."""

    path: RelativePath
    size: Count
    sha256: Digest


class Manifest(VersionedRecord):
    """`manifest.json`, written last: the record of a try. Without it the evidence is partial."""

    identity: AttemptIdentity
    pod_uid: str = Field(pattern=r"^[0-9a-f-]{36}$")
    ledger_digest: Digest
    variant_fingerprint: Digest
    archive_digest: Digest
    files: list[EvidenceFile]
    result: TryResult
    verify_only: VerifyOnly | None = Field(
        default=None, description="The try that was judged again; None where an agent ran."
    )


class TerminationMessage(VersionedRecord):
    """At most 1,000 bytes of JSON in the runner's termination message: a hint, never the record."""

    job_name: str = Field(max_length=63)
    pod_uid: str = Field(max_length=36)
    outcome: OutcomeClass
    reward: float | None = Field(default=None, ge=0, le=1)
    manifest: Digest | None = Field(default=None, description="Digest of manifest.json; None if not written.")
    reason: str = Field(default="", max_length=400)
