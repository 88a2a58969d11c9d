"""What a scrape says of runs: the same series at any size and after a restart, gone with the run (BAR 10)."""

import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from assay.adapters.metrics import OperatorMetrics
from assay.adapters.run_metric_help import FAMILIES
from assay.adapters.run_metrics import RunView
from assay.api.evaluation_run_status import AttemptCounts, VectorRow
from assay.api.outcome import OutcomeClass
from assay.core.record import AttemptKey, TryRecord, TryTokens
from assay.core.report_series import DriftSeries, ReportSeries, RowSeries
from assay.core.run_totals import RunTotals
from tests.operator_kit import builders as make

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def tries(count: int, outcome: OutcomeClass = OutcomeClass.GRADED, number: int = 1) -> dict[str, TryRecord]:
    made = {}
    for task in range(count):
        key = AttemptKey("ledger", f"task-{task}", "oracle", 0)
        name = f"job-{task}-{number}"
        made[name] = TryRecord(
            key,
            number,
            name,
            outcome,
            "",
            make.NOW,
            agent_seconds=70.0,
            total_seconds=5.0,
            tokens=TryTokens(input=100, output=20),
        )
    return made


def view(records: dict[str, TryRecord], uid: str = make.RUN_UID, attempts: int = 0) -> RunView:
    """A run as a process shows it that has just read these records from the journal."""
    run = make.run_object(uid=uid)
    count = attempts or len(records)
    row = VectorRow(
        ledger="ledger",
        variant="oracle",
        planned=count,
        valid=count,
        coverage="1",
        score_strict="0.5",
    )
    counts = AttemptCounts(planned=count, recorded=count)
    status = run.status.model_copy(update={"attempts": counts, "vector": [row]})
    totals = RunTotals(run.spec)
    totals.take(records)
    return RunView(run.model_copy(update={"status": status}), totals=totals)


@pytest.fixture
def metrics() -> OperatorMetrics:
    return OperatorMetrics()


def samples(metrics: OperatorMetrics) -> Samples:
    """The scrape as a parser understands it: names, labels, values; of runs alone."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(metrics.render().decode())
        for sample in family.samples
        if sample.name.startswith("assay_run_")
    }


def value(metrics: OperatorMetrics, name: str, **labels: str) -> float:
    """The one sample of that name with these labels among its own."""
    wanted = set(labels.items())
    (found,) = [number for (one, own), number in samples(metrics).items() if one == name and wanted <= own]
    return found


def test_as_many_series_at_10_attempts_as_at_10_000(metrics: OperatorMetrics) -> None:
    sizes = []
    for count in (10, 10_000):
        metrics.run_series.show(view(tries(count)))
        sizes.append(len(samples(metrics)))
    assert sizes[0] == sizes[1] > 0


def test_a_class_counts_from_0_before_its_first_try(metrics: OperatorMetrics) -> None:
    """increase() of a series that starts at 1 is 0: an alert would miss the first."""
    metrics.run_series.show(view({}, attempts=3))
    for outcome in OutcomeClass:
        assert value(metrics, "assay_run_tries_total", outcome=outcome.value) == 0


def test_a_restart_changes_no_sample(metrics: OperatorMetrics) -> None:
    first, second = tries(5, OutcomeClass.DISRUPTED), tries(5, number=2)
    watched = view(first)
    assert watched.totals is not None
    watched.totals.take(first | second)
    metrics.run_series.show(replace(view(first | second, attempts=5), totals=watched.totals))
    restarted = OperatorMetrics()
    restarted.run_series.show(view(first | second, attempts=5))
    assert samples(restarted) == samples(metrics)


def test_records_are_counted_once_however_often_they_are_shown(metrics: OperatorMetrics) -> None:
    shown = view(tries(3))
    assert shown.totals is not None
    shown.totals.take(tries(3))
    shown.totals.freeze()
    metrics.run_series.show(shown)
    assert value(metrics, "assay_run_tries_total", outcome="Graded") == 3


def test_replaced_tries_stay_counted_and_the_attempt_moves_to_its_latest_class(
    metrics: OperatorMetrics,
) -> None:
    metrics.run_series.show(view(tries(2, OutcomeClass.INFRA_START) | tries(1, number=2), attempts=2))
    for outcome, attempts, made in (("InfraStart", 1, 2), ("Graded", 1, 1)):
        assert value(metrics, "assay_run_attempt_outcomes", outcome=outcome) == attempts
        assert value(metrics, "assay_run_tries_total", outcome=outcome) == made
    assert value(metrics, "assay_run_infrastructure_errors_total") == 2
    assert value(metrics, "assay_run_tokens_total", kind="input") == 300
    assert value(metrics, "assay_run_metered_tries_total") == 3


def test_phase_times_are_cumulative_histograms(metrics: OperatorMetrics) -> None:
    metrics.run_series.show(view(tries(4)))
    assert value(metrics, "assay_run_phase_seconds_bucket", phase="agent", le="60") == 0
    assert value(metrics, "assay_run_phase_seconds_bucket", phase="agent", le="180") == 4
    assert value(metrics, "assay_run_phase_seconds_bucket", phase="total", le="5") == 4
    assert value(metrics, "assay_run_phase_seconds_count", phase="agent") == 4
    assert value(metrics, "assay_run_phase_seconds_sum", phase="agent") == 280
    assert value(metrics, "assay_run_phase_seconds_count", phase="setup") == 0


def test_a_deleted_run_leaves_no_series_and_a_new_one_of_its_name_stays(metrics: OperatorMetrics) -> None:
    newer = "22222222-2222-4222-8222-222222222222"
    metrics.run_series.show(view(tries(3)))
    metrics.run_series.show(view(tries(1), uid=newer))
    metrics.run_series.drop(make.NAMESPACE, "run", make.RUN_UID)
    assert value(metrics, "assay_run_tries_total", outcome="Graded") == 1
    metrics.run_series.drop(make.NAMESPACE, "run", newer)
    assert not samples(metrics)


def test_what_is_not_known_has_no_sample(metrics: OperatorMetrics) -> None:
    metrics.run_series.show(RunView(make.run_object()))
    names = {name for name, _ in samples(metrics)}
    assert not names & {"assay_run_tries_total", "assay_run_score_ratio", "assay_run_start_time_seconds"}


def full_view() -> RunView:
    """A run with a sample in every family."""
    shown = view(tries(3))
    status = shown.run.status.model_copy(update={"started_at": make.NOW, "completed_at": make.later(60)})
    shown.run = shown.run.model_copy(update={"status": status})
    shown.live, shown.unrecorded, shown.unrecorded_since = Counter({"Nothing": 2}), 1, make.NOW
    row = RowSeries((-0.01, 0.7), 0.1, (-0.2, 0.4), 0.25, 1.5, 0.5, 3)
    shown.report = ReportSeries({("ledger", "oracle"): row}, {"ledger": DriftSeries(-0.1, 0.01)})
    return shown


def test_promtool_finds_no_fault_in_names_units_and_help(metrics: OperatorMetrics) -> None:
    metrics.run_series.show(full_view())
    metrics.set_runs("evals", ["running"])
    metrics.count_request("GET", "200")
    done = subprocess.run(["promtool", "check", "metrics"], input=metrics.render(), capture_output=True)
    assert (done.returncode, done.stderr.decode()) == (0, "")


def test_every_family_is_described_and_has_only_its_labels(metrics: OperatorMetrics) -> None:
    """No family can grow with tasks, pods or attempts: none has such a label."""
    metrics.run_series.show(full_view())
    found: dict[str, Any] = {}
    for name, labels in samples(metrics):
        stem = next(one for one in _stems(name) if one in FAMILIES)
        allowed = {"namespace", "run", *FAMILIES[stem].labels, "le"}
        assert {label for label, _ in labels} <= allowed
        found[stem] = FAMILIES[stem]
    assert found == FAMILIES
    bounded = {"ledger", "variant", "outcome", "state", "condition", "waiting_for", "measure", "bound"}
    bounded |= {"kind", "phase", "tries"}
    assert {label for family in FAMILIES.values() for label in family.labels} == bounded


def _stems(name: str) -> Iterator[str]:
    yield name
    for suffix in ("_bucket", "_sum", "_count"):
        yield name.removesuffix(suffix)
