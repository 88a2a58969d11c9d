"""Two runs agree within their stated error, or do not, or must not be compared."""

from typing import Any

import pytest

from assay.api.report import Report
from assay.core.compare import ComparisonRefusedError, compare
from tests.unit.report.samples import attempts, ledger_file, report, run_record

TASKS = {f"t{number:02}": f"c{number}" for number in range(20)}
FILE = ledger_file(TASKS)


def run(rewards: list[float | None], **given: Any) -> Report:
    records = attempts(dict.fromkeys(TASKS, rewards), ledger_digest=FILE.digest, **given.pop("told", {}))
    return report(records, ledgers=[FILE], **given)


def test_a_run_agrees_with_itself() -> None:
    found = compare(run([1, 0, 1]), run([1, 0, 1]))
    assert found.agrees
    assert [(row.ledger, row.variant, row.agrees) for row in found.rows] == [("ledger", "candidate", True)]


def test_a_clear_change_does_not_agree() -> None:
    found = compare(run([0, 0, 0]), run([1, 1, 1]))
    assert not found.agrees
    (row,) = found.rows
    assert row.drift is not None
    assert row.drift.shift == 1


def test_changes_that_cancel_do_not_agree() -> None:
    half = {name: [1.0, 1.0, 1.0] if place % 2 else [0.0, 0.0, 0.0] for place, name in enumerate(TASKS)}
    other = {name: [0.0, 0.0, 0.0] if place % 2 else [1.0, 1.0, 1.0] for place, name in enumerate(TASKS)}
    first, second = (
        report(attempts(rewards, ledger_digest=FILE.digest), ledgers=[FILE]) for rewards in (half, other)
    )
    found = compare(first, second)
    assert found.rows[0].drift is not None
    assert found.rows[0].drift.shift == 0
    assert not found.agrees


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"told": {"harness": {"commit": "b" * 40}}}, "harness"),
        ({"told": {"resources": {"limit": {"memory_mib": 1}}}}, "resources"),
        ({"told": {"models": ["other"]}}, "model"),
        ({"runs": [run_record({"ledger": FILE}, ["candidate"], deadlines={"agent": 1})]}, "timeouts"),
        ({"runs": [run_record({"ledger": FILE}, ["candidate"], concurrency=3)]}, "concurrency"),
    ],
)
def test_runs_that_measured_different_things_are_refused_until_told(
    change: dict[str, Any], field: str
) -> None:
    first = run([1, 0, 1], runs=[run_record({"ledger": FILE}, ["candidate"])] if "runs" in change else [])
    second = run([1, 0, 1], **change)
    with pytest.raises(ComparisonRefusedError, match=rf"{field}: .* --despite {field}"):
        compare(first, second)
    assert compare(first, second, frozenset({field})).agrees


def test_another_ledger_of_the_same_name_is_refused() -> None:
    other = ledger_file(TASKS | {"more": "more"})
    second = report(
        attempts({name: [1, 0, 1] for name in TASKS}, ledger_digest=other.digest), ledgers=[other]
    )
    with pytest.raises(ComparisonRefusedError, match="ledger: "):
        compare(run([1, 0, 1]), second)


def test_versions_of_a_benchmark_are_never_compared() -> None:
    other = ledger_file(TASKS, version="2.0")
    second = report(
        attempts({name: [1, 0, 1] for name in TASKS}, ledger_digest=other.digest), ledgers=[other]
    )
    with pytest.raises(ComparisonRefusedError, match=r"sample 1\.0 and 2\.0"):
        compare(run([1, 0, 1]), second, frozenset({"ledger"}))


def test_what_only_one_run_has_is_named() -> None:
    both = report(
        [
            *attempts({name: [1, 0, 1] for name in TASKS}, ledger_digest=FILE.digest),
            *attempts({name: [1, 0, 1] for name in TASKS}, "more", ledger_digest=FILE.digest),
        ],
        ledgers=[FILE],
    )
    assert compare(run([1, 0, 1]), both).only_second == ("more on ledger",)
