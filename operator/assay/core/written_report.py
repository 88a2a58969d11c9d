"""The report of a run as its status knows it."""

from dataclasses import dataclass

from assay.api.evaluation_run_status import IndexRow, VectorRow
from assay.api.evaluation_run_status import Report as ReportPlace
from assay.api.report import Report
from assay.core.scoring import index_rows, with_report


@dataclass(frozen=True, slots=True)
class WrittenReport:
    """The report of an ended run and where it lies, or why none could be made of its records."""

    place: ReportPlace | None = None
    report: Report | None = None
    problem: str = ""

    @property
    def reasons_against(self) -> list[str]:
        """Why the figures may not be published."""
        return list(self.report.reasons_against) if self.report else [self.problem]

    @property
    def index(self) -> list[IndexRow]:
        """The index of every variant; empty without a suite."""
        return index_rows(self.report) if self.report else []

    def complete(self, vector: list[VectorRow]) -> list[VectorRow]:
        """The vector with the report's figures."""
        if self.report is None:
            return vector
        rows = {(row.ledger, row.variant): row for row in self.report.vector}
        return [
            with_report(live, rows[live.ledger, live.variant])
            if (live.ledger, live.variant) in rows
            else live
            for live in vector
        ]
