"""The few figures of a report that the metrics show; None is a figure that the report does not have."""

from dataclasses import dataclass, field

from assay.api.report import Drift, Interval, Report, ShiftFigures
from assay.api.report import Row as ReportRow


@dataclass(frozen=True, slots=True)
class RowSeries:
    """Of one ledger and variant. Bounds are (low, high); costs are USD."""

    bounds: tuple[float, float] | None
    shift: float | None
    shift_bounds: tuple[float, float] | None
    shift_p: float | None
    cost: float | None
    replaced_cost: float | None
    priced: int


@dataclass(frozen=True, slots=True)
class DriftSeries:
    """The baseline's drift on one ledger."""

    shift: float | None
    p: float | None


@dataclass(frozen=True, slots=True)
class ReportSeries:
    """By (ledger, variant), and by ledger."""

    rows: dict[tuple[str, str], RowSeries] = field(default_factory=dict)
    drift: dict[str, DriftSeries] = field(default_factory=dict)


def report_series(report: Report) -> ReportSeries:
    """The figures of a report."""
    return ReportSeries(
        rows={(row.ledger, row.variant): _row(row) for row in report.vector},
        drift={one.ledger: DriftSeries(one.shift, _drift_p(one)) for one in report.drift},
    )


def _row(row: ReportRow) -> RowSeries:
    cost = row.usage.cost_usd
    return RowSeries(
        bounds=_bounds(row.sampling.interval) if row.sampling else None,
        shift=row.shift.shift if row.shift else None,
        shift_bounds=_bounds(row.shift.sampling) if row.shift else None,
        shift_p=_shift_p(row.shift),
        cost=None if cost.total is None else float(cost.total),
        replaced_cost=_replaced_cost(row),
        priced=cost.n,
    )


def _replaced_cost(row: ReportRow) -> float | None:
    """What was never replaced cost nothing; what nobody could price is not known."""
    total = row.replaced.cost_usd.total
    return None if total is None and row.replaced.tries else float(total or 0)


def _bounds(interval: Interval | None) -> tuple[float, float] | None:
    return None if interval is None else (interval.low, interval.high)


def _shift_p(shift: ShiftFigures | None) -> float | None:
    if shift is None or shift.sign_flip is None:
        return None
    test = shift.sign_flip
    return test.p_value if test.adjusted_p is None else test.adjusted_p


def _drift_p(drift: Drift) -> float | None:
    """The smaller of the two tests: a shift of the mean, and any change of the tasks."""
    tests = [(drift.adjusted_p_shift, drift.p_shift), (drift.adjusted_p_any, drift.p_any)]
    known = [plain if adjusted is None else adjusted for adjusted, plain in tests]
    return min((one for one in known if one is not None), default=None)
