"""What must survive a restart of the runner's container.

The `/work` emptyDir outlives a container: a runner that finds a start marker there is a restarted one, and
the agent must not run twice.
"""

import json
import os
from datetime import datetime
from pathlib import Path

from assay.api.evidence import EvidenceFile
from assay.runner import steady_clock
from assay.runner.sample import Sample


class RunnerState:
    """Marker files of one try below `/work/.assay`."""

    def __init__(self, folder: Path) -> None:
        self._started = folder / "started.json"
        self._finished = folder / "finished.json"
        self._evidence = folder / "evidence.jsonl"
        self._sample = folder / "sample.json"
        folder.mkdir(parents=True, exist_ok=True)

    def claim(self) -> bool:
        """Record that the try begins now. False if it had begun before: this runner was restarted."""
        marker = json.dumps({"startedAt": steady_clock.now().isoformat(), "pid": os.getpid()})
        try:
            with self._started.open("x") as file:
                file.write(marker)
                file.flush()
                os.fsync(file.fileno())
        except FileExistsError:
            return False
        return True

    @property
    def started_at(self) -> datetime:
        """When the first runner began; now, if its marker was cut short."""
        try:
            return datetime.fromisoformat(json.loads(self._started.read_text())["startedAt"])
        except (OSError, ValueError, KeyError):
            return steady_clock.now()

    def acknowledge(self, file: EvidenceFile) -> None:
        """Remember that the gateway holds this object."""
        with self._evidence.open("a") as log:
            log.write(file.model_dump_json() + "\n")

    def acknowledged(self) -> dict[str, EvidenceFile]:
        """Objects that the gateway holds, by path. A line that a crash cut short is left out."""
        files = {}
        for line in self._evidence.read_text().splitlines() if self._evidence.exists() else []:
            try:
                file = EvidenceFile.model_validate_json(line)
            except ValueError:
                continue
            files[file.path] = file
        return files

    def keep_sample(self, sample: Sample) -> None:
        """Remember what the agent's phase came to; its artefacts have been packed."""
        partial = self._sample.with_suffix(".partial")
        partial.write_text(sample.model_dump_json())
        partial.replace(self._sample)

    def sample(self) -> Sample | None:
        """What the agent's phase came to, where a verifier has begun since; else None."""
        return Sample.model_validate_json(self._sample.read_bytes()) if self._sample.exists() else None

    def finish(self, message: bytes) -> None:
        """Remember the termination message of a try whose manifest is written."""
        partial = self._finished.with_suffix(".partial")
        partial.write_bytes(message)
        partial.replace(self._finished)

    def finished(self) -> bytes | None:
        """The termination message of a try that had ended, or None."""
        return self._finished.read_bytes() if self._finished.exists() else None
