"""What the metrics take from a report: its very figures, and nothing where it has none."""

from assay.core.report_series import report_series
from tests.unit.report.samples import attempts, ledger_file, record, report, row

TASKS = {f"t{number:02}": f"c{number}" for number in range(12)}
GOOD = {task: [1.0] for task in TASKS}
FILE = ledger_file(TASKS)
ON_FILE = {"ledger_digest": FILE.digest}
CALLS = [{"model": "m", "tokens": {"input": 5, "output": 1}}]
BAD = {task: [float(number < 3)] for number, task in enumerate(TASKS)}


def test_intervals_shift_and_its_test_are_those_of_the_report() -> None:
    records = attempts(GOOD, **ON_FILE) + attempts(BAD, "baseline", **ON_FILE)
    found = report(records, ledgers=[FILE], baseline="baseline")
    rows = report_series(found).rows
    expected, shown = row(found), rows["ledger", "candidate"]
    assert expected.shift is not None
    assert expected.shift.sign_flip is not None
    assert shown.shift == expected.shift.shift != 0
    assert shown.shift_p == expected.shift.sign_flip.adjusted_p
    baseline = row(found, "baseline").sampling
    assert baseline is not None
    assert baseline.interval is not None
    assert rows["ledger", "baseline"].bounds == (baseline.interval.low, baseline.interval.high)
    assert rows["ledger", "baseline"].shift is None


def test_a_baseline_that_moved_has_a_small_p_and_one_that_did_not_a_large() -> None:
    before = attempts({task: [1.0] for task in TASKS}, "baseline", run="before", run_uid="0" * 36, **ON_FILE)
    for now, small in ((BAD, True), (GOOD, False)):
        after = attempts(now, "baseline", **ON_FILE)
        found = report(after, ledgers=[FILE], baseline="baseline", reference=before)
        (drift,) = report_series(found).drift.values()
        assert drift.p is not None
        assert (drift.p < 0.05) is small


def test_what_was_never_replaced_cost_nothing_and_what_has_no_price_is_not_known() -> None:
    lost = record("a", retained=False, outcome="Disrupted", reward=None, calls=CALLS)
    whole, replaced = report([record("a")]), report([lost, record("a", try_number=2, calls=CALLS)])
    free, unpriced = (report_series(one).rows["ledger", "candidate"] for one in (whole, replaced))
    assert (free.cost, free.replaced_cost) == (0, 0)
    assert (unpriced.cost, unpriced.replaced_cost) == (None, None)
