"""What a ledger's list of runs says: how earlier runs ended, and which one is the reference for drift.

`LedgerResult` is a file of its own in S3; the other records are part of `run.json`.
"""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from assay.api.base import Digest, DNSLabel, DNSName, Record, VersionedRecord
from assay.api.evidence import Count

Name = Annotated[str, Field(min_length=1, max_length=253)]
Share = Annotated[float, Field(ge=0, le=1)]
RunUid = Annotated[str, Field(min_length=1, max_length=64)]
Verdict = Literal["PUBLISHABLE", "NOT PUBLISHABLE"]


class ResultFile(Record):
    """A file of an ended run in the bucket of its evidence."""

    key: str = Field(max_length=500)
    digest: Digest


class VariantResult(Record):
    """What one variant of the run got on the ledger."""

    variant: DNSName
    fingerprint: Digest
    strict: Share | None = Field(description="Strict score; null where no attempt has a valid result.")
    attempts_planned: Count
    attempts_valid: Count

    @property
    def complete(self) -> bool:
        """Whether every planned attempt has a valid result."""
        return self.attempts_valid == self.attempts_planned


class LedgerResult(VersionedRecord):
    """`ledgers/DIGEST/results/RUN-UID-rREVISION.json`: how a run on the ledger ended, by digest."""

    run_uid: RunUid
    run_name: DNSName
    namespace: DNSLabel
    ledger_digest: Digest
    revision: Annotated[int, Field(ge=1)]
    completed_at: datetime
    follows_plan: bool = Field(description="No deviation from the plan, and no reused results.")
    baseline: DNSName | None = None
    variants: list[VariantResult] = Field(min_length=1, max_length=50)
    verdict: Verdict
    attempts: ResultFile = Field(description="attempts.jsonl of the run.")
    report: ResultFile = Field(description="report.json of the run.")

    @property
    def baseline_result(self) -> VariantResult | None:
        """What the baseline got."""
        return next((one for one in self.variants if one.variant == self.baseline), None)


class DriftReference(Record):
    """The run whose baseline is the reference for drift on a ledger: the first complete one (design §8)."""

    ledger: DNSName
    is_this_run: bool = Field(description="This run's baseline is what later ones are tested against.")
    run: Name | None = None
    run_uid: RunUid | None = None
    completed_at: datetime | None = None
    attempts: Digest | None = Field(default=None, description="Of the reference run's attempts.jsonl.")
    reason: str | None = Field(default=None, max_length=1000, description="Why it could not be used.")


class EarlierRun(Record):
    """Another run of a variant on a ledger that had begun when the report was made."""

    ledger: DNSName
    variant: Name = Field(description="As this run names it; the fingerprint is the same.")
    run: Name
    run_uid: RunUid
    started_at: datetime
    completed_at: datetime | None = None
    revision: Annotated[int, Field(ge=1)] | None = Field(default=None, description="Of its newest report.")
    strict: Share | None = None
    attempts_planned: Count | None = None
    attempts_valid: Count | None = None
    verdict: Verdict | None = None
    report: Digest | None = None
    reason: str | None = Field(default=None, max_length=200, description="Why there is no result.")
