"""The try spec of one try: everything that its runner and the gateway need to know."""

from assay.api.evaluation_run import EvaluationRun
from assay.api.labels import GATEWAY_HOST, GATEWAY_PORT
from assay.api.tryspec import AgentSpec, AttemptIdentity, StorageTarget, TaskRef, TrySpec
from assay.core.plan import RunPlan, deadlines
from assay.core.record import AttemptKey, TryRecord
from assay.core.variants import agent_spec, model_targets
from assay.core.verification import verify_only

GATEWAY_URL = f"http://{GATEWAY_HOST}:{GATEWAY_PORT}"


def identity_of(run: EvaluationRun, key: AttemptKey, try_number: int, name: str) -> AttemptIdentity:
    """Identity of the try whose Job is called `name`."""
    return AttemptIdentity(
        run_name=run.metadata.name,
        run_uid=run.metadata.uid,
        namespace=run.metadata.namespace,
        ledger=key.ledger,
        task=key.task,
        variant=key.variant,
        repetition=key.repetition,
        try_number=try_number,
        job_name=name,
    )


def storage_of(run: EvaluationRun) -> StorageTarget:
    """Where the run's evidence goes."""
    return StorageTarget(bucket=run.spec.storage.s3.bucket, prefix=run.spec.storage.s3.prefix)


def make_try_spec(
    run: EvaluationRun,
    plan: RunPlan,
    key: AttemptKey,
    try_number: int,
    name: str,
    judged: TryRecord | None = None,
) -> TrySpec:
    """The try spec. The images are the ledger's: what a mirror serves has the same digest.

    A try that judges the artefacts of `judged` again is told of no model and nothing of how the agent runs.
    """
    ledger, variant = plan.ledgers[key.ledger], plan.variants[key.variant]
    task = ledger.tasks[key.task]
    return TrySpec(
        identity=identity_of(run, key, try_number, name),
        ledger_digest=ledger.digest,
        variant_fingerprint=variant.fingerprint,
        task=TaskRef(
            id=task.id,
            archive_digest=task.archive_digest,
            verifier_mode=task.verifier_mode,
            network=task.network,
            environment_image=task.images.environment,
            verifier_image=task.images.verifier,
            crossing_files=task.crossing_files or [],
        ),
        agent=AgentSpec(name=variant.spec.agent.name) if judged else agent_spec(variant.spec),
        models=[] if judged else model_targets(variant.spec),
        deadlines=deadlines(run.spec, ledger, task),
        storage=storage_of(run).model_copy(update={"archive_bucket": ledger.archive_bucket}),
        gateway_url=GATEWAY_URL,
        verify_only=verify_only(judged) if judged else None,
    )
