"""What the journal's first segment and the ledgers' lists of runs say of a run. Pure."""

from datetime import datetime

from assay.api.evaluation_run import EvaluationRun
from assay.api.journal import LedgerRun, Opening, OpeningLedger, OpeningVariant
from assay.core.names import journal_prefix
from assay.core.plan import RunPlan
from assay.core.try_spec import storage_of


def opening_of(run: EvaluationRun, plan: RunPlan) -> Opening:
    """What the run measures, by digest."""
    return Opening(
        run_name=run.metadata.name,
        namespace=run.metadata.namespace,
        ledgers=[
            OpeningLedger(
                name=name,
                digest=ledger.digest,
                plan_digest=ledger.plan_digest,
                repetitions=plan.repetitions[name],
            )
            for name, ledger in plan.ledgers.items()
        ],
        variants=[
            OpeningVariant(name=name, fingerprint=variant.fingerprint)
            for name, variant in plan.variants.items()
        ],
        baseline=run.spec.baseline.name if run.spec.baseline else None,
    )


def ledger_runs(run: EvaluationRun, plan: RunPlan, now: datetime) -> list[LedgerRun]:
    """The run's entry on the list of each of its ledgers."""
    opening = opening_of(run, plan)
    return [
        LedgerRun(
            run_uid=run.metadata.uid,
            run_name=opening.run_name,
            namespace=opening.namespace,
            ledger=ledger,
            variants=opening.variants,
            baseline=opening.baseline,
            started_at=run.status.started_at or now,
            journal=journal_prefix(storage_of(run), run.metadata.uid),
        )
        for ledger in opening.ledgers
    ]
