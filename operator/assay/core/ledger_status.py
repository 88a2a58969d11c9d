"""The status of a Ledger from what was read of its source."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from assay.api.conditions import with_condition
from assay.api.ledger_resource import (
    Ledger,
    LedgerCondition,
    LedgerCounts,
    LedgerReason,
    LedgerStatus,
    ValueCount,
)
from assay.core.canonical import digest_of_bytes
from assay.core.ledger import LedgerFile, LedgerFileError, parse_ledger

MAX_LICENCES, MAX_DIFFICULTIES = 50, 20


@dataclass(frozen=True, slots=True)
class LedgerProblem:
    """Why a ledger cannot be used: a reason for its condition and words with cause and fix."""

    reason: LedgerReason
    message: str
    observed_digest: str | None = None

    @property
    def may_pass(self) -> bool:
        """Whether reading again may help without a change of the Ledger."""
        return self.reason in (LedgerReason.SOURCE_UNAVAILABLE, LedgerReason.SOURCE_NOT_FOUND)


def check_ledger(ledger: Ledger, content: bytes) -> LedgerFile | LedgerProblem:
    """The ledger file if `content` is what the Ledger names: digest, format, benchmark and version."""
    observed = digest_of_bytes(content)
    if observed != ledger.spec.digest:
        return LedgerProblem(
            LedgerReason.DIGEST_MISMATCH,
            f"the file has digest {observed}, spec.digest is {ledger.spec.digest}: the source holds another "
            "file than the frozen one; publish the right file, or create a new Ledger for this one",
            observed,
        )
    try:
        file = parse_ledger(content)
    except LedgerFileError as error:
        return LedgerProblem(LedgerReason.INVALID_FILE, str(error), observed)
    named, header = ledger.spec.benchmark, file.header
    if (named.name, named.version) != (header.benchmark, header.version):
        return LedgerProblem(
            LedgerReason.BENCHMARK_MISMATCH,
            f"spec.benchmark is {named.name} {named.version}, the file's header says "
            f"{header.benchmark} {header.version}",
            observed,
        )
    return file


def ledger_status(ledger: Ledger, found: LedgerFile | LedgerProblem, now: datetime) -> LedgerStatus:
    """The status to be written; equal to the present one where nothing changed."""
    old, generation = ledger.status, ledger.metadata.generation
    conditions, verified = old.conditions, isinstance(found, LedgerFile)
    reason, message = LedgerReason.DIGEST_MATCHES, ""
    if isinstance(found, LedgerProblem):
        reason, message = found.reason, found.message
    conditions, _ = with_condition(
        conditions, LedgerCondition.VERIFIED, verified, reason, message, generation=generation, now=now
    )
    frozen_at = old.frozen_at or (now.replace(microsecond=0) if verified else None)
    frozen = frozen_at is not None
    conditions, _ = with_condition(
        conditions,
        LedgerCondition.FROZEN,
        frozen,
        LedgerReason.FIRST_VERIFIED if frozen else LedgerReason.NOT_VERIFIED,
        generation=generation,
        now=now,
    )
    update: dict[str, object] = {
        "observed_generation": generation,
        "conditions": conditions,
        "frozen_at": frozen_at,
    }
    if isinstance(found, LedgerFile):
        update |= {"observed_digest": found.digest, "counts": ledger_counts(found)}
    elif found.observed_digest is not None:
        update["observed_digest"] = found.observed_digest
    return old.model_copy(update=update)


def ledger_counts(file: LedgerFile) -> LedgerCounts:
    """Counts of tasks, clusters and labels."""
    return LedgerCounts(
        tasks=len(file.tasks),
        clusters=file.clusters,
        repositories=file.repositories,
        licences=_first(file.licences, MAX_LICENCES),
        difficulties=_first(file.difficulties, MAX_DIFFICULTIES),
        unknowns=file.unknowns,
        labelled_after_results=len(file.labelled_after_results),
    )


def _first(counts: Sequence[tuple[str, int]], limit: int) -> list[ValueCount]:
    return [ValueCount(value=value, tasks=count) for value, count in counts[:limit]]
