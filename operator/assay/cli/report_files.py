"""The HTML page of a report, from its files or from what was just scored."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from assay.adapters.report_page import page_of_files
from assay.api.report import Report
from assay.cli.output import InputError
from assay.cli.report_output import report_json
from assay.core.records_file import RecordsError

REPORT_FILE, ATTEMPTS_FILE = "report.json", "attempts.jsonl"


@dataclass(frozen=True, slots=True)
class ReportFiles:
    """A report's files here, and the addresses by which others find them."""

    report: Path
    attempts: Path | None
    report_address: str
    attempts_address: str


def write_page(html: Path, files: ReportFiles) -> None:
    """The page of a report's files. Raises InputError."""
    attempts = [files.attempts] if files.attempts else []
    try:
        page = page_of_files(
            files.report, attempts, files.report_address, [files.attempts_address] if attempts else []
        )
    except RecordsError as error:
        raise InputError(str(error)) from error
    html.write_text(page)


def write_scored_page(html: Path, report: Report, records: Sequence[Path]) -> None:
    """The page of a report that is not a file: its digest is that of what `--format json` prints."""
    with tempfile.TemporaryDirectory(prefix="assay-report-") as folder:
        file = Path(folder) / REPORT_FILE
        file.write_text(report_json(report))
        html.write_text(page_of_files(file, records, REPORT_FILE))
