"""What the agent's phase of a try came to, kept when a separate verifier begins.

From here on the agent never runs again for want of a verdict, so this must outlive the verifier, the runner's
container, and Harbor, which scrubs its own copies at the end: a scrubbed candidate is another one.
"""

import logging
from pathlib import Path

from assay.api.base import Record
from assay.api.evidence import PhaseSeconds
from assay.api.outcome import OutcomeClass
from assay.runner.sandbox import SandboxTransferError
from assay.runner.sandbox.archive import pack_chunks

log = logging.getLogger(__name__)


class Sample(Record):
    """What is known of the agent's phase; its artefacts lie beside it."""

    graded_as: OutcomeClass
    agent_timed_out: bool
    agent_version: str | None
    seconds: PhaseSeconds
    flags: list[str]


def pack_artifacts(folder: Path, archive: Path, limit: int) -> str | None:
    """Write what crosses as a tar file of at most `limit` bytes. Returns why that cannot be done, or None."""
    size = 0
    try:
        with archive.open("wb") as file:
            for piece in pack_chunks(folder):
                size += len(piece)
                if size > limit:
                    archive.unlink()
                    return f"more than {limit} bytes"
                file.write(piece)
    except (OSError, SandboxTransferError) as error:
        archive.unlink(missing_ok=True)
        return str(error)
    return None
