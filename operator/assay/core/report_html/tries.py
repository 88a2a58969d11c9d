"""Every try with the address and digest of its evidence, as compact data that the page's script shows."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from assay.api.attempt_record import AttemptRecord, Criterion, JudgeVerdict
from assay.api.report import Report
from assay.core.names import slug
from assay.core.terminal_text import one_line

MAX_REASON = 300
MAX_NAME = 300
MAX_IMAGES = 500
JUDGED_FLAGGED = "rewardHacking"


@dataclass
class Numbered:
    """Texts that come again and again, each stored once."""

    texts: dict[str, int] = field(default_factory=dict)

    def number(self, text: str) -> int:
        """The number of a text, from 0 in the order of their first use."""
        return self.texts.setdefault(text, len(self.texts))


@dataclass
class Tries:
    """The tries of a report. `add` keeps a short row of each; nothing else of a record is remembered."""

    report: Report
    rows: list[list[Any]] = field(default_factory=list)
    cells: dict[tuple[str, str, str], list[int]] = field(default_factory=dict)
    """Rows of (ledger, task, variant)."""
    images: dict[str, dict[str, int]] = field(default_factory=dict)
    """By container: images by digest, and how many tries ran each."""

    def __post_init__(self) -> None:
        self._ledgers, self._tasks, self._variants = Numbered(), Numbered(), Numbered()
        self._outcomes, self._reasons, self._runs = Numbered(), Numbered(), Numbered()

    def add_all(self, records: Iterable[AttemptRecord]) -> None:
        """Add every record of a stream; the same try again replaces nothing and is left out."""
        seen = set()
        for record in records:
            identity = record.ledger, record.task, record.variant, record.repetition, record.try_number
            if identity not in seen:
                seen.add(identity)
                self._add(record)

    def _add(self, record: AttemptRecord) -> None:
        self.cells.setdefault((record.ledger, record.task, record.variant), []).append(len(self.rows))
        for container, image in record.images.items():
            found = self.images.setdefault(container, {})
            if image in found or len(found) < MAX_IMAGES:
                found[image] = found.get(image, 0) + 1
        self.rows.append(
            [
                self._ledgers.number(record.ledger),
                self._tasks.number(record.task),
                self._variants.number(record.variant),
                record.repetition,
                record.try_number,
                int(record.retained),
                self._outcomes.number(record.outcome.value),
                record.reward,
                _rounded(record.seconds.agent),
                _rounded(record.total_seconds),
                record.tokens.input,
                record.tokens.output,
                self._runs.number(record.run_uid or ""),
                record.pod_uid or "",
                (record.manifest_digest or "").removeprefix("sha256:"),
                self._reasons.number(one_line(record.reason, MAX_REASON)),
                [one_line(flag, 60) for flag in _flags(record)],
            ]
        )

    def flagged(self, row: int) -> bool:
        """Whether a judge found reward hacking in a try, or it looks tampered with."""
        flags = self.rows[row][-1]
        return JUDGED_FLAGGED in flags or "tamperSuspected" in flags

    def as_json(self) -> str:
        """The data as JSON that may stand inside an HTML script element."""
        addresses = {run.uid: run.evidence or "" for run in self.report.runs}
        document = {
            "ledgers": _with_slugs(self._ledgers),
            "tasks": _with_slugs(self._tasks),
            "variants": _with_slugs(self._variants),
            "outcomes": list(self._outcomes.texts),
            "reasons": list(self._reasons.texts),
            "evidence": [addresses.get(uid, "") for uid in self._runs.texts],
            "tries": self.rows,
        }
        return script_json(document)


def script_json(document: Any) -> str:
    """JSON without any character by which it could leave a script element."""
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _flags(record: AttemptRecord) -> list[str]:
    judged = any(
        one.criterion is Criterion.REWARD_HACKING and one.verdict is JudgeVerdict.FLAGGED
        for one in record.judgements
    )
    return [*([JUDGED_FLAGGED] if judged else []), *record.flags]


def _with_slugs(names: Numbered) -> list[list[str]]:
    return [[one_line(name, MAX_NAME), slug(name)] for name in names.texts]


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)
