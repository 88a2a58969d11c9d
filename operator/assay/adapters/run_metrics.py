"""Series of runs, made at each scrape from what is known of them: nothing is counted up here.

A run's gauges follow from its status, its counters from the journal's records, its intervals from the report.
Each of the three is the same after a restart, so a restart moves no series.

The text is written here, not by prometheus_client: at its 8 to 25 µs a sample, a run with 100 rows would stop
the one loop that the operator has for 0.1 to 0.3 s (benchmarks/scrape.py).
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import accumulate

from assay.adapters.run_metric_help import FAMILIES
from assay.api.conditions import is_true
from assay.api.evaluation_run import EvaluationRun
from assay.api.evaluation_run_status import RunCondition, VectorRow
from assay.api.outcome import OutcomeClass
from assay.core.pod_causes import Waiting
from assay.core.record_totals import TOKEN_KINDS
from assay.core.report_series import ReportSeries, RowSeries
from assay.core.run_totals import PHASE_BOUNDS, PHASES, RowTotals, RunTotals

WORKING = "Nothing"
"""Value of `waiting_for` while a try works."""
STATES = ("waiting", "live", "recorded", "invalid")
_WAITS = (WORKING, *(one.value for one in Waiting))
_BUCKETS = tuple(f'le="{bound}"' for bound in (*(f"{one:g}" for one in PHASE_BOUNDS), "+Inf"))


@dataclass(slots=True)
class RunView:
    """What the metrics know of one run. `run` carries the status as it was last written."""

    run: EvaluationRun
    live: Counter[str] = field(default_factory=Counter)
    """Live tries by what they wait for: a value of `Waiting`, or `WORKING`."""
    unrecorded: int = 0
    unrecorded_since: datetime | None = None
    """When the oldest try ended whose result is not durable yet."""
    totals: RunTotals | None = None
    """None until the journal has been read."""
    report: ReportSeries | None = None
    """None until the report is there."""


class RunSeries:
    """The series of all runs that exist, by namespace and name."""

    def __init__(self) -> None:
        self._views: dict[tuple[str, str], RunView] = {}

    def show(self, view: RunView) -> None:
        """Show a run; one of the same name that was shown before is gone."""
        self._views[view.run.metadata.namespace, view.run.metadata.name] = view

    def shows(self, view: RunView) -> bool:
        """Whether this very view is shown: its run exists, and no newer view has taken its place."""
        return self._views.get((view.run.metadata.namespace, view.run.metadata.name)) is view

    def drop(self, namespace: str, name: str, uid: str) -> None:
        """Show nothing more of a deleted run; a newer one of its name stays."""
        view = self._views.get((namespace, name))
        if view is not None and view.run.metadata.uid == uid:
            del self._views[namespace, name]

    def render(self) -> str:
        """All series in Prometheus' text format."""
        lines: _Lines = {name: [] for name in FAMILIES}
        now = datetime.now(UTC)
        for view in self._views.values():
            _write_run(lines, view, now)
        parts = []
        for name, samples in lines.items():
            if samples:
                family = FAMILIES[name]
                parts.append(f"# HELP {name} {family.help}\n# TYPE {name} {family.kind}\n")
                parts += samples
        return "".join(parts)


_Lines = dict[str, list[str]]


def _write_run(lines: _Lines, view: RunView, now: datetime) -> None:
    run, status = view.run, view.run.status
    labels = _labels(namespace=run.metadata.namespace, run=run.metadata.name)
    _each(lines, "assay_run_attempts", labels, "state", [(s, getattr(status.attempts, s)) for s in STATES])
    conditions = [(one.value, int(is_true(status.conditions, one))) for one in RunCondition]
    _each(lines, "assay_run_condition", labels, "condition", conditions)
    for name, moment in (("start", status.started_at), ("end", status.completed_at)):
        _one(lines, f"assay_run_{name}_time_seconds", labels, None if moment is None else moment.timestamp())
    _one(lines, "assay_run_slots", labels, run.spec.parallelism)
    _each(lines, "assay_run_live_jobs", labels, "waiting_for", [(one, view.live[one]) for one in _WAITS])
    _one(lines, "assay_run_unrecorded_tries", labels, view.unrecorded)
    since = view.unrecorded_since
    lag = 0.0 if since is None else max(0.0, (now - since).total_seconds())
    _one(lines, "assay_run_journal_lag_seconds", labels, lag)
    for row in status.vector:
        _write_vector(lines, f"{labels},{_labels(ledger=row.ledger, variant=row.variant)}", row)
    for (ledger, variant), totals in (view.totals.rows if view.totals else {}).items():
        _write_totals(lines, f"{labels},{_labels(ledger=ledger, variant=variant)}", totals)
    if view.report is not None:
        _write_report(lines, labels, view.report)


def _write_vector(lines: _Lines, labels: str, row: VectorRow) -> None:
    _one(lines, "assay_run_planned_attempts", labels, row.planned)
    _one(lines, "assay_run_scored_attempts", labels, row.valid)
    _one(lines, "assay_run_coverage_ratio", labels, row.coverage)
    scores = [("strict", row.score_strict), ("valid", row.score_valid)]
    _each(lines, "assay_run_score_ratio", labels, "measure", scores)


def _write_totals(lines: _Lines, labels: str, totals: RowTotals) -> None:
    # A class that is absent until it happens would hide its first try from rate() and increase().
    tries = [(one.value, totals.tries[one]) for one in OutcomeClass]
    attempts = [(one.value, totals.attempts[one]) for one in OutcomeClass]
    _each(lines, "assay_run_tries_total", labels, "outcome", tries)
    _each(lines, "assay_run_attempt_outcomes", labels, "outcome", attempts)
    for name in ("infrastructure_errors", "refusals", "model_calls"):
        _one(lines, f"assay_run_{name}_total", labels, getattr(totals, name))
    _one(lines, "assay_run_flagged_tries_total", labels, totals.flagged)
    _one(lines, "assay_run_metered_tries_total", labels, totals.metered)
    kinds = [(kind, totals.tokens[kind]) for kind in TOKEN_KINDS]
    _each(lines, "assay_run_tokens_total", labels, "kind", kinds)
    for phase in PHASES:
        found = totals.phases[phase]
        counts = list(accumulate(found.buckets))
        mine = f'{labels},phase="{phase}"'
        lines["assay_run_phase_seconds"] += [
            *(
                f"assay_run_phase_seconds_bucket{{{mine},{bucket}}} {count}\n"
                for bucket, count in zip(_BUCKETS, counts, strict=True)
            ),
            f"assay_run_phase_seconds_sum{{{mine}}} {found.total!r}\n",
            f"assay_run_phase_seconds_count{{{mine}}} {counts[-1]}\n",
        ]


def _write_report(lines: _Lines, labels: str, report: ReportSeries) -> None:
    for (ledger, variant), row in report.rows.items():
        _write_report_row(lines, f"{labels},{_labels(ledger=ledger, variant=variant)}", row)
    for ledger, drift in report.drift.items():
        mine = f"{labels},{_labels(ledger=ledger)}"
        _one(lines, "assay_run_baseline_drift_ratio", mine, drift.shift)
        _one(lines, "assay_run_baseline_drift_p_value", mine, drift.p)


def _write_report_row(lines: _Lines, labels: str, row: RowSeries) -> None:
    for name, bounds in (("score", row.bounds), ("shift", row.shift_bounds)):
        named = zip(("low", "high"), bounds or (None, None), strict=True)
        _each(lines, f"assay_run_{name}_bound_ratio", labels, "bound", list(named))
    _one(lines, "assay_run_shift_ratio", labels, row.shift)
    _one(lines, "assay_run_shift_p_value", labels, row.shift_p)
    costs = [("retained", row.cost), ("replaced", row.replaced_cost)]
    _each(lines, "assay_run_cost_usd", labels, "tries", costs)
    _one(lines, "assay_run_priced_attempts", labels, row.priced)


def _one(lines: _Lines, name: str, labels: str, value: float | str | None) -> None:
    if value is not None:
        lines[name].append(f"{name}{{{labels}}} {value}\n")


def _each(
    lines: _Lines, name: str, labels: str, label: str, values: Sequence[tuple[str, float | str | None]]
) -> None:
    lines[name] += [
        f'{name}{{{labels},{label}="{key}"}} {value}\n' for key, value in values if value is not None
    ]


def _labels(**values: str) -> str:
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in values.items())


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
