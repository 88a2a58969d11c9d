"""What an EvaluationRun's status says, in words and tables for people."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from types import MappingProxyType

from assay.api.conditions import Condition, find_condition, is_true
from assay.api.evaluation_run import EvaluationRun
from assay.api.evaluation_run_status import EvaluationRunStatus, Mean, RunCondition, RunReason, VectorRow

UNKNOWN = "—"

Table = tuple[Sequence[str], Sequence[Sequence[str]]]
"""Headings and rows."""


def progress_line(run: EvaluationRun) -> str:
    """One line: attempts by state, and what the run is doing or waiting for."""
    attempts = run.status.attempts
    parts = [f"{attempts.recorded} of {attempts.planned} attempts recorded", f"{attempts.live} live"]
    if attempts.invalid:
        parts.append(f"{attempts.invalid} without a score")
    return f"{', '.join(parts)}  {doing(run)}".rstrip()


def doing(run: EvaluationRun) -> str:
    """Why the run moves or does not, from the condition that matters most."""
    conditions = run.status.conditions
    for type_ in (RunCondition.FAILED, RunCondition.SUSPENDED, RunCondition.STALLED):
        if is_true(conditions, type_):
            return _worded(find_condition(conditions, type_))
    return _worded(find_condition(conditions, RunCondition.PROGRESSING))


def _worded(condition: Condition | None) -> str:
    if condition is None:
        return ""
    return f"{condition.reason}: {condition.message}" if condition.message else condition.reason


def ended(run: EvaluationRun) -> bool:
    """Whether the run is Complete or Failed."""
    return any(is_true(run.status.conditions, t) for t in (RunCondition.COMPLETE, RunCondition.FAILED))


def completed(run: EvaluationRun) -> bool:
    """Whether every attempt is recorded and the coverage that was asked for is reached."""
    return is_true(run.status.conditions, RunCondition.COMPLETE)


def stopped(run: EvaluationRun) -> bool:
    """Whether the run goes no further without somebody's decision, although nobody asked it to stop."""
    found = find_condition(run.status.conditions, RunCondition.SUSPENDED)
    return found is not None and found.status == "True" and found.reason != RunReason.REQUESTED


def state(run: EvaluationRun) -> str:
    """One word: Complete, Failed, Stopped, Suspended, Running or Waiting."""
    conditions = run.status.conditions
    if is_true(conditions, RunCondition.COMPLETE):
        return "Complete"
    if is_true(conditions, RunCondition.FAILED):
        return "Failed"
    if is_true(conditions, RunCondition.SUSPENDED):
        return "Stopped" if stopped(run) else "Suspended"
    return "Running" if is_true(conditions, RunCondition.PROGRESSING) else "Waiting"


def age(run: EvaluationRun, now: datetime) -> str | None:
    """Time since the run was created; None where the API server did not say when."""
    created = run.metadata.creation_timestamp
    return duration(now - datetime.fromisoformat(created)) if created else None


def time_left(run: EvaluationRun, now: datetime) -> str | None:
    """How long the rest takes if it goes as the part so far; None before the first attempt has ended."""
    attempts, started = run.status.attempts, run.status.started_at
    done = attempts.recorded + attempts.invalid
    if started is None or not done:
        return None
    return duration((now - started) / done * (attempts.planned - done))


def duration(time: timedelta) -> str:
    """A time in its two largest units: `3d4h`, `1h5m`, `2m30s`, `12s`."""
    seconds = max(0, int(time.total_seconds()))
    parts = [
        (seconds // 86400, "d"),
        (seconds // 3600 % 24, "h"),
        (seconds // 60 % 60, "m"),
        (seconds % 60, "s"),
    ]
    first = next((index for index, (value, _) in enumerate(parts) if value), 3)
    return "".join(f"{value}{unit}" for value, unit in parts[first : first + 2] if value) or "0s"


def facts(run: EvaluationRun) -> list[str]:
    """When it started and ended, what it was made with, and where what it left lies."""
    status, lines = run.status, []
    if status.started_at is not None:
        ended_at = f", ended {status.completed_at:%Y-%m-%d %H:%M:%S}" if status.completed_at else ""
        lines.append(f"started {status.started_at:%Y-%m-%d %H:%M:%S} UTC{ended_at}")
    if status.resolved is not None:
        lines += [f"ledger {one.name}: {one.tasks} tasks, {one.digest}" for one in status.resolved.ledgers]
        if status.resolved.images is not None:
            lines.append(f"runner image {status.resolved.images.runner}")
    if status.evidence_prefix:
        lines.append(f"evidence: s3://{run.spec.storage.s3.bucket}/{status.evidence_prefix}")
    if status.report is not None:
        place = status.report
        lines.append(f"report: s3://{place.bucket}/{place.key} revision {place.revision}, {place.digest}")
    return lines


_COLUMNS: Mapping[str, Callable[[VectorRow], str]] = MappingProxyType(
    {
        "variant": lambda row: row.variant,
        "ledger": lambda row: row.ledger,
        "strict": lambda row: _rate(row.score_strict),
        "95 %": lambda row: _interval(row.score_interval),
        "shift": lambda row: UNKNOWN if row.shift is None else f"{Decimal(row.shift):+.3f}",
        "valid": lambda row: _rate(row.score_valid),
        "n": lambda row: f"{row.valid}/{row.planned}",
        "coverage": lambda row: _rate(row.coverage),
        "tokens in": lambda row: _mean(row.input_tokens, row.valid),
        "tokens out": lambda row: _mean(row.output_tokens, row.valid),
        "agent s": lambda row: _mean(row.agent_seconds, row.valid),
        "total s": lambda row: _mean(row.total_seconds, row.valid),
        "USD": lambda row: _cost(row.cost_usd),
        "tries": lambda row: str(row.tries),
        "infra": lambda row: str(row.infra_errors),
    }
)


def vector_table(rows: Sequence[VectorRow], baseline: str | None = None) -> Table:
    """The score vector: a percentage never stands without its companions.

    The ledger is told where there are several; interval and shift, which is against the variant `baseline`,
    once the report has computed them.
    """
    left_out = set()
    if len({row.ledger for row in rows}) < 2:
        left_out.add("ledger")
    if not any(row.score_interval for row in rows):
        left_out.add("95 %")
    if not any(row.shift for row in rows):
        left_out.add("shift")
    shown = {heading: cell for heading, cell in _COLUMNS.items() if heading not in left_out}
    cells = [[cell(row) for cell in shown.values()] for row in rows]
    for row, line in zip(rows, cells, strict=True):
        if row.variant == baseline:
            line[0] += " (baseline)"
    return list(shown), cells


def baseline(run: EvaluationRun) -> str | None:
    """Name of the variant that others are compared with."""
    return run.spec.baseline.name if run.spec.baseline else None


def _interval(value: str | None) -> str:
    """The interval of a score, without what a score cannot be."""
    if value is None:
        return UNKNOWN
    return " to ".join(f"{min(max(Decimal(part), Decimal(0)), Decimal(1)):.3f}" for part in value.split())


def _rate(value: str | None) -> str:
    return UNKNOWN if value is None else f"{Decimal(value):.3f}"


def _mean(value: Mean | None, expected: int) -> str:
    """The mean, with its n where not every valid attempt is in it."""
    if value is None or value.n == 0:
        return UNKNOWN
    shown = f"{Decimal(value.mean):,.1f}"
    return shown if value.n == expected else f"{shown} (n={value.n})"


def _cost(value: Mean | None) -> str:
    return UNKNOWN if value is None or value.n == 0 else value.mean


def provenance(row: VectorRow, status: EvaluationRunStatus) -> str:
    """What a row's figures were made with."""
    ledgers = status.resolved.ledgers if status.resolved else []
    digest = next((one.digest for one in ledgers if one.name == row.ledger), UNKNOWN)
    return (
        f"ledger {row.ledger} {digest}, harness commit {row.harness_commit or UNKNOWN}, "
        f"Harbor {row.harbor_version or UNKNOWN}"
    )


def publishable(run: EvaluationRun) -> str:
    """The verdict that every rendering of figures begins with."""
    found = find_condition(run.status.conditions, RunCondition.PUBLISHABLE)
    if found is not None and found.status == "True":
        return "Publishable"
    return f"NOT PUBLISHABLE: {found.message if found and found.message else 'prerequisites are not met'}"


def failures(run: EvaluationRun) -> list[str]:
    """The newest tries without a score, one line each."""
    return [
        f"{item.task} · {item.variant} · r{item.repetition}: {item.outcome}: {item.message}"
        for item in run.status.recent_failures
    ]
