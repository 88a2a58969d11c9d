"""Whether two reports agree within their stated error, and whether they may be compared at all."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

from assay.api.report import LedgerEntry, Report, Row
from assay.core.figures.attempts import VariantAttempts, collect
from assay.core.figures.drift import Drift, drift
from assay.core.figures.holm import AdjustedP, holm
from assay.core.figures.observations import LedgerTasks, Observation, TaskFacts

ALPHA = 0.05
FIELDS = ("ledger", "harness", "resources", "timeouts", "concurrency", "model", "prices")
"""Parts of the fingerprint, as `--despite` names them."""


class ComparisonRefusedError(ValueError):
    """The reports are not of the same measurement; the message names the fields and what to do."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A part of the fingerprint that differs."""

    field: str
    words: str


@dataclass(frozen=True, slots=True)
class Agreement:
    """One row of both reports. `agrees` is None where nothing could be tested."""

    ledger: str
    variant: str
    first: float | None
    second: float | None
    drift: Drift | None
    p_shift: AdjustedP | None
    p_any: AdjustedP | None
    reason: str | None = None

    @property
    def agrees(self) -> bool | None:
        """Whether neither exact test finds a difference at 5 %, Holm-adjusted over all rows and both
        tests."""
        found = [one.adjusted for one in (self.p_shift, self.p_any) if one and one.adjusted is not None]
        return all(p >= ALPHA for p in found) if found else None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Every row that both reports have, what only one of them has, and the differences that were accepted."""

    rows: tuple[Agreement, ...]
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]
    differences: tuple[Difference, ...]

    @property
    def agrees(self) -> bool:
        """Whether every row was tested and agrees."""
        return bool(self.rows) and all(row.agrees for row in self.rows)


def compare(first: Report, second: Report, despite: frozenset[str] = frozenset()) -> Comparison:
    """Compare the rows that both reports have. Raises ComparisonRefusedError where fingerprints differ.

    `despite` names parts of the fingerprint that may differ. Two versions of a suite or of a benchmark are
    never
    compared.
    """
    _refuse_versions(first, second)
    found = tuple(fingerprint_differences(first, second))
    refused = [one for one in found if one.field not in despite]
    if refused:
        fields = sorted({one.field for one in refused})
        raise ComparisonRefusedError(
            "the two runs measured different things: "
            + "; ".join(f"{one.field}: {one.words}" for one in refused)
            + ". To compare them all the same: "
            + " ".join(f"--despite {field}" for field in fields)
        )
    mine, theirs = _rows(first), _rows(second)
    both = [key for key in mine if key in theirs]
    drifts = {f"{ledger}\t{variant}": _drift(first, second, ledger, variant) for ledger, variant in both}
    family: dict[str, float | None] = {}
    for name, one in drifts.items():
        family |= {f"{name}\tshift": one.p_shift if one else None, f"{name}\tany": one.p_any if one else None}
    adjusted = holm(family)
    return Comparison(
        rows=tuple(_agreement(mine[key], theirs[key], drifts["\t".join(key)], adjusted) for key in both),
        only_first=tuple(
            f"{variant} on {ledger}" for ledger, variant in mine if (ledger, variant) not in theirs
        ),
        only_second=tuple(
            f"{variant} on {ledger}" for ledger, variant in theirs if (ledger, variant) not in mine
        ),
        differences=found,
    )


def _agreement(mine: Row, theirs: Row, found: Drift | None, adjusted: Mapping[str, AdjustedP]) -> Agreement:
    name = f"{mine.ledger}\t{mine.variant}"
    return Agreement(
        ledger=mine.ledger,
        variant=mine.variant,
        first=mine.score.strict,
        second=theirs.score.strict,
        drift=found,
        p_shift=adjusted.get(f"{name}\tshift"),
        p_any=adjusted.get(f"{name}\tany"),
        reason="they have no task in common" if found is None else found.reason,
    )


def _rows(report: Report) -> dict[tuple[str, str], Row]:
    return {(row.ledger, row.variant): row for row in report.vector}


def _refuse_versions(first: Report, second: Report) -> None:
    if first.suite and second.suite and first.suite != second.suite:
        raise ComparisonRefusedError(
            f"suite: {first.suite} and {second.suite}: an index of one version says nothing of another; "
            "score one of the runs again with the other's suite"
        )
    theirs = {one.benchmark: one.version for one in second.ledgers if one.benchmark}
    for one in first.ledgers:
        if one.benchmark in theirs and theirs[one.benchmark] != one.version:
            raise ComparisonRefusedError(
                f"ledger: {one.benchmark} {one.version} and {theirs[one.benchmark]}: "
                "scores of two versions of a benchmark are not comparable"
            )


def fingerprint_differences(first: Report, second: Report) -> Iterator[Difference]:
    """Parts of the fingerprint in which the reports differ. What neither of them knows is no difference."""
    mine, theirs = {one.name: one for one in first.ledgers}, {one.name: one for one in second.ledgers}
    for name in mine.keys() & theirs.keys():
        yield from _ledger_differences(mine[name], theirs[name])
    for variant in sorted({row.variant for row in first.vector} & {row.variant for row in second.vector}):
        yield from _differ("harness", f"of {variant}", _harness(first, variant), _harness(second, variant))
        yield from _differ("model", f"of {variant}", _variant(first, variant), _variant(second, variant))
    yield from _differ("timeouts", "in seconds", _deadlines(first), _deadlines(second))
    yield from _differ("concurrency", "at most", _concurrency(first), _concurrency(second))
    yield from _differ("prices", "sheet", _prices(first), _prices(second))


def _ledger_differences(mine: LedgerEntry, theirs: LedgerEntry) -> Iterator[Difference]:
    yield from _differ("ledger", f"{mine.name}", str(mine.digest), str(theirs.digest))
    yield from _differ("resources", f"on {mine.name}", str(mine.resources), str(theirs.resources))


def _differ(field: str, of: str, mine: str, theirs: str) -> Iterator[Difference]:
    if mine != theirs:
        yield Difference(field, f"{of} {mine or 'unknown'} and {theirs or 'unknown'}")


def _harness(report: Report, variant: str) -> str:
    rows = [row.harness for row in report.vector if row.variant == variant]
    assay = sorted(
        {commit for one in rows for commit in one.commits} or {v for one in rows for v in one.assay}
    )
    harbor = sorted({version for one in rows for version in one.harbor})
    return f"Assay {', '.join(assay) or 'unknown'} with Harbor {', '.join(harbor) or 'unknown'}"


def _variant(report: Report, variant: str) -> str:
    fingerprints = sorted({run.variants[variant] for run in report.runs if variant in run.variants})
    if fingerprints:
        return ", ".join(fingerprints)
    rows = [row.harness for row in report.vector if row.variant == variant]
    return ", ".join(sorted({name for one in rows for name in (*one.agents, *one.models)}))


def _deadlines(report: Report) -> str:
    said = {f"{phase} {seconds}" for run in report.runs for phase, seconds in run.deadlines.items()}
    return ", ".join(sorted(said)) or "the ledger's"


def _concurrency(report: Report) -> str:
    return ", ".join(sorted({str(run.concurrency) for run in report.runs if run.concurrency}))


def _prices(report: Report) -> str:
    return report.prices.digest if report.prices else ""


def _drift(first: Report, second: Report, ledger: str, variant: str) -> Drift | None:
    rows = [_rows(report)[ledger, variant] for report in (first, second)]
    common = [task for task in rows[0].task_rewards if task in rows[1].task_rewards]
    if not common:
        return None
    days = [_attempts(row, common) for row in rows]
    return drift(days[0], days[1], ALPHA)


def _attempts(row: Row, tasks: list[str]) -> VariantAttempts:
    repetitions = max(1, *(len(row.task_rewards[task]) for task in tasks))
    ledger = LedgerTasks(row.ledger, tuple(TaskFacts(task, task) for task in tasks), repetitions)
    observations = (
        Observation(task, row.variant, repetition, reward)
        for task in tasks
        for repetition, reward in enumerate(row.task_rewards[task])
    )
    return collect(ledger, observations, [row.variant])[row.variant]


def score_difference(row: Agreement) -> Fraction | None:
    """Second minus first over the tasks that both tested; None without any."""
    return row.drift.shift if row.drift else None
