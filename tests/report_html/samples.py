"""Reports as runs leave them, and their pages."""

import random
import uuid
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from assay.adapters.list_prices import build_price_sheet
from assay.adapters.report_page import page_of_files
from assay.api.attempt_record import AttemptRecord
from assay.api.report import Report
from tests.unit.report.samples import DIGEST, RUN_UID, ledger_file, lines, record, report, run_record

MODEL = "claude-opus-5-5"
EVIDENCE = f"s3://evidence/runs/{RUN_UID}/"
TASKS = {f"task-{number:02}": f"repository-{number // 2}" for number in range(16)}
RATES = {"baseline": 0.4, "candidate": 0.9, "cheap": 0.45}


@dataclass(frozen=True)
class Sample:
    """A report, its records, and its page as files in a folder."""

    report: Report
    records: list[AttemptRecord]
    folder: Path

    @property
    def page(self) -> Path:
        """The page's file."""
        return self.folder / "report.html"


def attempt(task: str, variant: str, repetition: int, passed: bool, **changes: Any) -> AttemptRecord:
    """A retained try with everything that a page shows, as Assay records it."""
    seeded = random.Random(f"{task} {variant} {repetition}")
    known = {
        "repetition": repetition,
        "reward": float(passed),
        "variant_fingerprint": DIGEST,
        "models": [MODEL],
        "calls": [{"model": MODEL, "role": "main", "tokens": tokens(seeded.randrange(50_000, 90_000))}],
        "tokens": tokens(seeded.randrange(50_000, 90_000)),
        "seconds": {"agent": seeded.uniform(100, 400), "verifier": 12.5},
        "total_seconds": seeded.uniform(420, 500),
        "pod_uid": str(uuid.UUID(int=seeded.getrandbits(128), version=4)),
        "manifest_digest": f"sha256:{seeded.getrandbits(256):064x}",
        "images": {"runner": f"assay.test/runner@{DIGEST}"},
        "harness": {"harbor": "0.26.0", "assay": "0.1.0", "commit": "c" * 40, "agent": "terminus-2"},
    }
    return record(task, variant, **{**known, **changes})


def tokens(number: int) -> dict[str, int]:
    """Token counts of a call."""
    return {"input": number, "cache_read": 0, "cache_write_5m": 0, "cache_write_1h": 0, "output": 900}


def sample(folder: Path, extra: list[AttemptRecord] | None = None, **changes: Any) -> Sample:
    """A run of three variants on sixteen tasks; one attempt was lost, one is flagged; `extra` is added."""
    file = ledger_file(TASKS)
    seeded = random.Random(7)
    records = [
        attempt(task, variant, repetition, seeded.random() < rate, ledger_digest=file.digest)
        for variant, rate in RATES.items()
        for task in TASKS
        for repetition in range(3)
    ]
    lost = {"reward": None, "retained": False, "outcome": "VerifierTimeout", "reason": "it ran 900 s"}
    records[-1] = records[-1].model_copy(update={**lost, "outcome": records[-1].outcome.VERIFIER_TIMEOUT})
    records[0] = records[0].model_copy(update={"flags": ["tamperSuspected"]})
    runs = [run_record({"ledger": file}, RATES, evidence=EVIDENCE)]
    given = {"ledgers": [file], "baseline": "baseline", "runs": runs, **changes}
    return written(folder, [*records, *(extra or [])], **given)


def written(folder: Path, records: list[AttemptRecord], **given: Any) -> Sample:
    """The report of records, with its files and page in the folder."""
    made = report(records, sheet=build_price_sheet([MODEL], date(2026, 11, 30)), **given)
    (folder / "report.json").write_text(made.model_dump_json(by_alias=True, indent=2))
    (folder / "attempts.jsonl").write_bytes(b"".join(lines(records)))
    page = page_of_files(folder / "report.json", [folder / "attempts.jsonl"])
    (folder / "report.html").write_text(page)
    return Sample(made, records, folder)
