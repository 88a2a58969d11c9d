"""The runner's termination message: at most 1,000 bytes of valid JSON, whatever the reason says."""

import logging
from pathlib import Path

from assay.api.evidence import TERMINATION_MESSAGE_BYTES, TerminationMessage
from assay.api.outcome import OutcomeClass

log = logging.getLogger(__name__)


def termination_message(
    job_name: str,
    pod_uid: str,
    outcome: OutcomeClass,
    reward: float | None = None,
    manifest: str | None = None,
    reason: str = "",
) -> bytes:
    """The message as UTF-8 JSON; the reason is cut so that all fits."""
    kept = " ".join(reason.encode("utf-8", "replace").decode().split())[:400]
    while True:
        message = TerminationMessage(
            job_name=job_name[:63],
            pod_uid=pod_uid[:36],
            outcome=outcome,
            reward=reward,
            manifest=manifest,
            reason=kept,
        )
        encoded = message.model_dump_json(exclude_none=True).encode()
        if len(encoded) <= TERMINATION_MESSAGE_BYTES or not kept:
            return encoded
        excess = len(encoded) - TERMINATION_MESSAGE_BYTES
        # A character takes at most six bytes of JSON, so this never cuts much more than is needed.
        kept = kept[: -max(1, excess // 6)]


def write_termination_message(path: Path, message: bytes) -> None:
    """Write the message where the kubelet reads it. It is a hint, so a failure is only logged."""
    try:
        path.write_bytes(message)
    except OSError as error:
        log.warning("cannot write the termination message %s: %s", path, error)
