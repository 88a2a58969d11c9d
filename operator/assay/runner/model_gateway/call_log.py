"""Every model call of a try, in segments on disk that survive the runner's container."""

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path

from assay.api.evidence import CallRecord, TokenCounts
from assay.api.tryspec import ProviderAPI
from assay.runner.calls import CallSummary, total_tokens
from assay.runner.evidence import Evidence
from assay.runner.gateway_client import Deadline, GatewayError
from assay.runner.scrub import Scrubber

log = logging.getLogger(__name__)

FLUSH_SECONDS = 5.0
_SEGMENT_BYTES = 8 << 20
_FLUSH_DEADLINE_SECONDS = 60.0
UNDECLARED = "UndeclaredConfig"
ANSWER_PATHS: Mapping[ProviderAPI, str] = {"OpenAIChat": "chat/completions", "AnthropicMessages": "messages"}
"""Paths at which a model is asked for an answer."""


class CallLog:
    """Takes records as calls end, and hands closed segments to the evidence."""

    def __init__(self, folder: Path, scrubber: Scrubber) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._scrubber = scrubber
        self._segment = len(list(folder.glob("*.jsonl"))) + 1
        self._sequence = 0
        self._tokens: list[TokenCounts] = []
        self._calls_before = 0
        self.summaries: list[CallSummary] = []
        self.flags: list[str] = []
        self._recover()

    def _recover(self) -> None:
        """Count what a runner recorded before its container restarted: its calls were paid for too."""
        for file in sorted(self._folder.iterdir()):
            for line in file.read_bytes().splitlines():
                try:
                    record = CallRecord.model_validate_json(line)
                except ValueError:
                    # The last line of a runner that was killed while it wrote.
                    continue
                self._sequence = max(self._sequence, record.sequence)
                if record.path in ANSWER_PATHS.values():
                    self._calls_before += 1
                    if record.error is None:
                        self._tokens.append(record.tokens)

    @property
    def model_calls(self) -> int:
        """How many calls asked a model for an answer."""
        return self._calls_before + len(self.summaries)

    def next_sequence(self) -> int:
        """Number of a call that begins now, from 1."""
        self._sequence += 1
        return self._sequence

    @property
    def tokens(self) -> TokenCounts:
        """The sum over all answered calls."""
        return total_tokens(self._tokens)

    def add(self, record: CallRecord, summary: CallSummary | None) -> None:
        """Keep a call's record. A call without summary asked for no answer (a count of tokens)."""
        line = self._scrubber.scrub(record.model_dump_json(exclude_none=True).encode())
        with self._open_segment.open("ab") as file:
            file.write(line + b"\n")
        if summary is not None:
            self.summaries.append(summary)
            if summary.answered:
                self._tokens.append(record.tokens)
        if record.undeclared and UNDECLARED not in self.flags:
            log.warning(
                "call %d uses what the variant does not declare: %s", record.sequence, record.undeclared
            )
            self.flags.append(UNDECLARED)
        if self._open_segment.stat().st_size >= _SEGMENT_BYTES:
            self.close_segment()

    @property
    def _open_segment(self) -> Path:
        return self._folder / f"{self._segment:06d}.open"

    def close_segment(self) -> None:
        """Begin a new segment, if the present one holds anything."""
        if self._open_segment.exists():
            self._open_segment.rename(self._open_segment.with_suffix(".jsonl"))
            self._segment += 1

    async def upload_forever(self, evidence: Evidence) -> None:
        """Upload closed segments every few seconds, until cancelled."""
        while True:
            await asyncio.sleep(FLUSH_SECONDS)
            self.close_segment()
            try:
                await upload_segments(self._folder, evidence, Deadline(_FLUSH_DEADLINE_SECONDS))
            except (GatewayError, OSError) as error:
                log.warning("call records stay on disk until the gateway takes them: %s", error)


async def upload_segments(folder: Path, evidence: Evidence, deadline: Deadline) -> None:
    """Upload every closed segment that the gateway does not hold. Raises GatewayError, OSError."""
    held = {file.path for file in evidence.files}
    for segment in sorted(await asyncio.to_thread(lambda: list(folder.glob("*.jsonl")))):
        if f"calls/{segment.name}" not in held:
            await evidence.put_file(f"calls/{segment.name}", segment, deadline)
