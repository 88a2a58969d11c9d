"""The tables that few readers need: pass@k, scores by label, both lines of error."""

from collections.abc import Sequence

from assay.api.report import LedgerEntry, Row
from assay.core.report_cells import UNKNOWN, Table, noise, percent


def detail_tables(ledger: LedgerEntry, rows: Sequence[Row]) -> list[Table]:
    """All of them for one ledger."""
    return [_pass_k(ledger, rows), _groups(ledger, rows), _errors(ledger, rows)]


def _pass_k(ledger: LedgerEntry, rows: Sequence[Row]) -> Table:
    return Table(
        f"{ledger.name}: pass@k and pass^k",
        ("VARIANT", "K", "PASS@K", "PASS^K", "STRICT PASS@K", "STRICT PASS^K", "N", "WHY NOT"),
        tuple(
            (
                row.variant,
                str(one.k),
                percent(one.pass_at),
                percent(one.pass_hat),
                percent(one.pass_at_strict),
                percent(one.pass_hat_strict),
                f"{one.attempts_valid} of {one.tasks} tasks",
                one.reason or "",
            )
            for row in rows
            for one in row.pass_k
        ),
    )


def _groups(ledger: LedgerEntry, rows: Sequence[Row]) -> Table:
    return Table(
        f"{ledger.name}: scores by label",
        ("VARIANT", "LABEL", "VALUE", "SCORE", "VALID ONLY", "TASKS", "COVERAGE"),
        tuple(
            (
                row.variant,
                one.label,
                one.value or "(none)",
                percent(one.score.strict),
                percent(one.score.valid),
                str(one.score.tasks),
                f"{one.score.attempts_valid}/{one.score.attempts_planned}",
            )
            for row in rows
            for one in row.groups
        ),
    )


def _errors(ledger: LedgerEntry, rows: Sequence[Row]) -> Table:
    return Table(
        f"{ledger.name}: errors of the score, in points",
        ("VARIANT", "IID SE", "CR2 SE", "CR2 DF", "CR2 95 %", "CR1 SE", "CR1 DF", "CR1 95 %"),
        tuple(
            (
                row.variant,
                noise(row.sampling.iid),
                noise(row.sampling.cr2),
                f"{row.sampling.interval.degrees_of_freedom:.2f}" if row.sampling.interval else UNKNOWN,
                noise(row.sampling.interval.half_width if row.sampling.interval else None),
                noise(row.sampling.cr1),
                f"{row.sampling.cr1_interval.degrees_of_freedom:.0f}"
                if row.sampling.cr1_interval
                else UNKNOWN,
                noise(row.sampling.cr1_interval.half_width if row.sampling.cr1_interval else None),
            )
            for row in rows
            if row.sampling
        ),
    )
