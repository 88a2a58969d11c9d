"""What the names in a run's spec stand for, and what is missing. A name keeps what it meant at the start."""

from collections.abc import Mapping
from dataclasses import dataclass

import assay
from assay.api.agent_variant import AgentVariant, VariantCondition
from assay.api.conditions import find_condition
from assay.api.evaluation_run import EvaluationRun
from assay.api.evaluation_run_status import (
    Resolved,
    ResolvedImages,
    ResolvedLedger,
    ResolvedVariant,
    RunReason,
)
from assay.api.ledger_resource import Ledger, LedgerReason
from assay.core.ledger import LedgerFile
from assay.core.ledger_status import LedgerProblem
from assay.core.outcomes import TABLE_DIGEST
from assay.core.plan import RunLedger, RunVariant
from assay.core.variants import fingerprint

_ENDS = "its live tries finish and stay on record; delete this run and create a new one"


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a run cannot go on for now: a reason for a condition, and words that name cause and fix."""

    reason: RunReason
    message: str


@dataclass(frozen=True, slots=True)
class Resolution:
    """The resolved names. A problem means that the tuple beside it is not complete."""

    ledgers: tuple[RunLedger, ...]
    variants: tuple[RunVariant, ...]
    ledger_problem: Problem | None
    variant_problem: Problem | None

    @property
    def complete(self) -> bool:
        """Whether everything that the run names is there and is what it was at the start."""
        return self.ledger_problem is None and self.variant_problem is None


def resolve(
    run: EvaluationRun,
    ledgers: Mapping[str, Ledger],
    contents: Mapping[str, RunLedger | Problem],
    variants: Mapping[str, AgentVariant],
) -> Resolution:
    """Resolve the names of `run`. `contents` has what was read of each Ledger in `ledgers`, or why not."""
    started = run.status.resolved
    found_ledgers: list[RunLedger] = []
    found_variants: list[RunVariant] = []
    ledger_problem: Problem | None = None
    variant_problem: Problem | None = None
    for reference in run.spec.ledgers:
        ledger = _ledger(run, reference.name, ledgers, contents, started)
        if isinstance(ledger, Problem):
            ledger_problem = ledger_problem or ledger
        else:
            found_ledgers.append(ledger)
    for reference in run.spec.variants:
        variant = _variant(run, reference.name, variants, started)
        if isinstance(variant, Problem):
            variant_problem = variant_problem or variant
        else:
            found_variants.append(variant)
    return Resolution(tuple(found_ledgers), tuple(found_variants), ledger_problem, variant_problem)


def run_ledger_of(ledger: Ledger, found: LedgerFile | LedgerProblem) -> RunLedger | Problem:
    """The verified ledger as a run uses it, or why the run must wait."""
    name = ledger.metadata.name
    if isinstance(found, LedgerProblem):
        mismatch = found.reason is LedgerReason.DIGEST_MISMATCH
        reason = RunReason.DIGEST_MISMATCH if mismatch else RunReason.LEDGER_NOT_VERIFIED
        return Problem(reason, f"Ledger {name}: {found.message}")
    harness, s3 = ledger.spec.harness, ledger.spec.source.s3
    return RunLedger(
        name=name,
        uid=ledger.metadata.uid,
        digest=found.digest,
        header=found.header,
        tasks=found.by_id,
        runner_image=harness.runner_image if harness else None,
        archive_bucket=s3.bucket if s3 else None,
    )


def resolved_status(
    resolution: Resolution, images: ResolvedImages, price_sheet: str | None = None
) -> Resolved:
    """What the names stood for, as it is written into the status at the start."""
    return Resolved(
        ledgers=[
            ResolvedLedger(
                name=one.name,
                uid=one.uid,
                digest=one.digest,
                plan_digest=one.plan_digest,
                tasks=len(one.tasks),
            )
            for one in resolution.ledgers
        ],
        variants=[
            ResolvedVariant(name=one.name, uid=one.uid, fingerprint=one.fingerprint)
            for one in resolution.variants
        ],
        images=images,
        price_sheet=price_sheet,
        outcome_table=TABLE_DIGEST,
        operator_version=assay.__version__,
    )


def _ledger(
    run: EvaluationRun,
    name: str,
    ledgers: Mapping[str, Ledger],
    contents: Mapping[str, RunLedger | Problem],
    started: Resolved | None,
) -> RunLedger | Problem:
    ledger = ledgers.get(name)
    if ledger is None:
        return Problem(
            RunReason.LEDGER_NOT_FOUND,
            f"Ledger {name} does not exist in namespace {run.metadata.namespace}: create it, "
            "or correct spec.ledgers in a new run",
        )
    before = next((one for one in started.ledgers if one.name == name), None) if started else None
    if before and before.uid != ledger.metadata.uid:
        return Problem(
            RunReason.LEDGER_REPLACED,
            f"Ledger {name} was deleted and created again after the run had started "
            f"(UID {before.uid}, now {ledger.metadata.uid}): {_ENDS}",
        )
    content = contents.get(name) or Problem(RunReason.LEDGER_NOT_VERIFIED, f"Ledger {name} is being read")
    if isinstance(content, RunLedger) and before and before.digest != content.digest:
        return Problem(
            RunReason.DIGEST_MISMATCH,
            f"Ledger {name} had digest {before.digest} when the run started and has {content.digest} now",
        )
    return content


def _variant(
    run: EvaluationRun, name: str, variants: Mapping[str, AgentVariant], started: Resolved | None
) -> RunVariant | Problem:
    variant = variants.get(name)
    if variant is None:
        baseline = run.spec.baseline is not None and run.spec.baseline.name == name
        return Problem(
            RunReason.BASELINE_NOT_FOUND if baseline else RunReason.VARIANT_NOT_FOUND,
            f"AgentVariant {name} does not exist in namespace {run.metadata.namespace}: create it, "
            "or correct spec.variants in a new run",
        )
    before = next((one for one in started.variants if one.name == name), None) if started else None
    if before and before.uid != variant.metadata.uid:
        return Problem(
            RunReason.VARIANT_REPLACED,
            f"AgentVariant {name} was deleted and created again after the run had started "
            f"(UID {before.uid}, now {variant.metadata.uid}): {_ENDS}",
        )
    accepted = find_condition(variant.status.conditions, VariantCondition.ACCEPTED)
    if accepted is not None and accepted.status == "False":
        return Problem(RunReason.VARIANT_NOT_ACCEPTED, f"AgentVariant {name}: {accepted.message}")
    digest = fingerprint(variant.spec)
    if before and before.fingerprint != digest:
        return Problem(
            RunReason.VARIANT_REPLACED,
            f"AgentVariant {name} had fingerprint {before.fingerprint} when the run started and has {digest} "
            f"now: {_ENDS}",
        )
    return RunVariant(name, variant.metadata.uid, digest, variant.spec)
