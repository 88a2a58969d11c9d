"""JSON Schemas of every record on disk, so that other programs can read and check them."""

import json

from pydantic import BaseModel

from assay.api.attempt_record import AttemptRecord, RunRecord
from assay.api.evidence import CallRecord, Manifest, TerminationMessage
from assay.api.journal import Fence, JournalEntry, LedgerRun, SegmentHeader
from assay.api.ledger_build_file import LedgerBuildFile
from assay.api.ledgerfile import LedgerHeader, TaskLine
from assay.api.price_sheet import PriceSheet
from assay.api.report import Report
from assay.api.suite import SuiteDefinition
from assay.api.tryspec import TrySpec

RECORDS: dict[str, type[BaseModel]] = {
    "ledger-header": LedgerHeader,
    "ledger-task": TaskLine,
    "ledger-build-file": LedgerBuildFile,
    "try-spec": TrySpec,
    "manifest": Manifest,
    "call": CallRecord,
    "termination-message": TerminationMessage,
    "journal-segment": SegmentHeader,
    "journal-entry": JournalEntry,
    "journal-fence": Fence,
    "ledger-run": LedgerRun,
    "attempt-record": AttemptRecord,
    "run-record": RunRecord,
    "suite": SuiteDefinition,
    "price-sheet": PriceSheet,
    "report": Report,
}


def schema_files() -> dict[str, str]:
    """Path under the checkout and content of every schema."""
    files = {}
    for name, record in RECORDS.items():
        schema = {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "$id": f"https://assay.dev/schemas/v1/{name}.json",
            **record.model_json_schema(by_alias=True),
        }
        files[f"docs/schemas/{name}.json"] = json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
    return files
