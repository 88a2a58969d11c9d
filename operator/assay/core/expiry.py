"""When a run that has ended is deleted: `spec.ttlSecondsAfterFinished` after its end. Its evidence stays."""

from datetime import datetime, timedelta

from assay.api.evaluation_run import EvaluationRun
from assay.core.status import is_finished


def expires_at(run: EvaluationRun) -> datetime | None:
    """When the run is due to be deleted; None as long as it has not ended, or if it is kept.

    A run ends only once its journal and its report are durable, so nothing is lost with the resource.
    """
    after, ended = run.spec.ttl_seconds_after_finished, run.status.completed_at
    if after is None or ended is None or not is_finished(run):
        return None
    return ended + timedelta(seconds=after)
