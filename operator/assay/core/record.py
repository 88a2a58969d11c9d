"""The record of one finished try, and the key of an attempt."""

from dataclasses import asdict, dataclass
from datetime import datetime
from decimal import Decimal
from typing import ClassVar, NamedTuple

from pydantic import ConfigDict, TypeAdapter
from pydantic.alias_generators import to_camel

from assay.api.evidence import ARTIFACTS, PIN_EXTERNAL, Manifest, TokenCounts
from assay.api.outcome import OutcomeClass
from assay.api.tryspec import AttemptIdentity
from assay.core.outcomes import TABLE, Rule


@dataclass(frozen=True, slots=True)
class TryTokens:
    """`TokenCounts` of one try in a fifth of its memory: the operator holds a hundred thousand of them."""

    input: int | None = None
    cache_read: int | None = None
    cache_write_5m: int | None = None
    cache_write_1h: int | None = None
    reasoning: int | None = None
    output: int | None = None
    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, serialize_by_alias=True
    )

    @classmethod
    def of(cls, counts: TokenCounts) -> "TryTokens":
        """The same counts."""
        return cls(**dict(counts))

    def counts(self) -> TokenCounts:
        """The same counts."""
        return TokenCounts(**asdict(self))


UNKNOWN_TOKENS = TryTokens()
NO_TOKENS = TryTokens(0, 0, 0, 0, 0, 0)
"""Of a try in which no agent ran: known to be none."""


class AttemptKey(NamedTuple):
    """The unit that is scored, within one run."""

    ledger: str
    task: str
    variant: str
    repetition: int

    def __str__(self) -> str:
        return f"{self.ledger}\t{self.task}\t{self.variant}\t{self.repetition}"

    @classmethod
    def parse(cls, text: str) -> "AttemptKey":
        """Read what `str` wrote. Raises ValueError for anything else."""
        ledger, task, variant, repetition = text.split("\t")
        return cls(ledger, task, variant, int(repetition))

    @classmethod
    def of(cls, identity: AttemptIdentity) -> "AttemptKey":
        """Key of the attempt that `identity` names a try of."""
        return cls(identity.ledger, identity.task, identity.variant, identity.repetition)


@dataclass(frozen=True, slots=True)
class TryRecord:
    """How one try ended. Seconds and tokens are None where nobody measured them, never 0."""

    key: AttemptKey
    try_number: int
    job_name: str
    outcome: OutcomeClass
    reason: str
    ended_at: datetime
    pod_uid: str = ""
    reward: float | None = None
    agent_timed_out: bool = False
    setup_seconds: float | None = None
    agent_seconds: float | None = None
    verifier_seconds: float | None = None
    upload_seconds: float | None = None
    total_seconds: float | None = None
    tokens: TryTokens = UNKNOWN_TOKENS
    model_calls: int | None = None
    harbor_version: str = ""
    harness_commit: str = ""
    manifest_digest: str = ""
    """Digest of manifest.json in S3; empty where there is none."""
    images: tuple[tuple[str, str], ...] = ()
    """(container, image ID as the node reports it), where the pod was still there to ask."""
    flags: tuple[str, ...] = ()
    verifies: int | None = None
    """Number of the try whose artefacts this one judged again; None where an agent ran."""
    artifacts_digest: str = ""
    """Digest of artefacts that have no verdict yet and can be judged again; empty where there are none."""
    graded_as: OutcomeClass | None = None
    """Class of the attempt once those artefacts have a verdict."""
    cost_usd: Decimal | None = None
    """Cost of its calls by the run's price sheet, where the run has a budget in money; None is unknown."""

    @property
    def rule(self) -> Rule:
        """What follows from the class."""
        return TABLE[self.outcome]

    @property
    def flagged(self) -> bool:
        """Whether the runner noted something about the try; a note about its own image is none."""
        return any(flag != PIN_EXTERNAL for flag in self.flags)

    def to_json(self) -> str:
        """The record as it is kept in the Job's annotation."""
        return _ADAPTER.dump_json(self, exclude_defaults=True).decode()

    @classmethod
    def from_json(cls, text: str) -> "TryRecord":
        """Read `to_json`. Raises ValueError."""
        return _ADAPTER.validate_json(text)


_ADAPTER = TypeAdapter(TryRecord)


@dataclass(frozen=True, slots=True)
class ManifestFound:
    """S3 has a manifest of the pod."""

    manifest: Manifest
    digest: str

    @property
    def artifacts(self) -> str:
        """Digest of the artefacts that still wait for a verdict; empty where there are none.

        A try that would have been excluded with a verdict too, e.g. by its provider, has none to wait for.
        """
        graded_as = self.manifest.result.graded_as
        if graded_as is None or not TABLE[graded_as].retained:
            return ""
        return next((file.sha256 for file in self.manifest.files if file.path == ARTIFACTS), "")


@dataclass(frozen=True, slots=True)
class ManifestBad:
    """S3 has something under the manifest's name that is not a manifest of this try."""

    reason: str


@dataclass(frozen=True, slots=True)
class ManifestAbsent:
    """S3 had none when it was asked."""

    asked_at: datetime
    first_asked_at: datetime | None = None
    """When it was asked first, if earlier. The pod had ended by then, whatever its node's clock says."""

    def after(self, before: "ManifestAnswer | None") -> "ManifestAbsent":
        """This answer where another one had come before."""
        if not isinstance(before, ManifestAbsent):
            return self
        return ManifestAbsent(self.asked_at, before.first_asked_at or before.asked_at)


ManifestAnswer = ManifestFound | ManifestBad | ManifestAbsent
