"""What a pass may decide to do about tries. Each may be done again without harm."""

from dataclasses import dataclass

from assay.core.observation import JobView
from assay.core.record import AttemptKey, TryRecord


@dataclass(frozen=True, slots=True)
class CreateJob:
    """Make the Job of a try."""

    key: AttemptKey
    try_number: int
    name: str
    judged: TryRecord | None = None
    """The try whose artefacts it judges again, without an agent; None where an agent runs."""


@dataclass(frozen=True, slots=True)
class WriteRecord:
    """Write the record on the Job, since it could not be found again once the pod is gone."""

    job: JobView
    record: TryRecord
    end: bool = False
    """Also end the Job: the try can come to nothing."""


@dataclass(frozen=True, slots=True)
class AskManifest:
    """Ask S3 whether it has a manifest of the pod; of any pod of the try where `pod_uid` is empty."""

    key: AttemptKey
    try_number: int
    name: str
    pod_uid: str


@dataclass(frozen=True, slots=True)
class DeleteJob:
    """Delete the Job: its result is durable in the journal, or the run is stopped and nothing of it ran."""

    job: JobView


Action = CreateJob | WriteRecord | AskManifest | DeleteJob
