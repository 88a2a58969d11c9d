"""Suites are data: the index, its gaps, and versions that never mix."""

from datetime import date

import pytest

from assay.adapters.score_files import find_suite, packaged_suites
from assay.api.report import IndexRow, Report
from assay.core.score_input import ReportRefusedError
from assay.core.suites import SuiteError, parse_suite
from tests.unit.report.samples import attempts, ledger_file, report
from tests.unit.report.suites import FILE, complete, ledgers, made_up


def index(found: Report, variant: str = "candidate") -> IndexRow:
    (row,) = [one for one in found.index if one.variant == variant]
    return row


def test_the_shipped_suite_is_the_coding_agent_index() -> None:
    suite = packaged_suites()["coding-agent-index@1.5"]
    assert {name: one.tasks for name, one in suite.components.items()} == {
        "deepswe": 113,
        "terminal-bench": 66,
        "swe-atlas-qna": 124,
    }
    assert sum(one.tasks for one in suite.components.values()) * suite.rules.repetitions == 909
    assert [name for name, one in suite.components.items() if one.reward_hacking_judged] == ["terminal-bench"]
    assert suite.rules.refusal_reruns == 10
    assert [note.version for note in suite.history] == [
        *("1.0", "1.1", "1.2", "1.3", "1.4", "1.5"),
        *("2.0", "2.1"),
    ]
    assert all(note.released or note.known for note in suite.history)


def test_a_file_makes_a_suite() -> None:
    assert find_suite(str(FILE)) == made_up()
    assert made_up().history[1].released == date(2026, 2, 1)


def test_an_unknown_suite_names_those_that_exist() -> None:
    with pytest.raises(SuiteError, match=r"no suite made-up@9; Assay ships coding-agent-index@1\.5"):
        find_suite("made-up@9")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b'version: "2"\ntitle', b'version: "3"\ntitle', "history has no entry for version 3"),
        (b"tasks: 4", b"tasks: 0", "components.second.tasks"),
        (b"benchmark: second", b"benchmark: first", "a benchmark is listed twice"),
        (b"refusalReruns: 1", b"refusalRerun: 1", "rules.refusalReruns: Field required"),
        (b"name:", b"\tname:", "is not YAML"),
    ],
)
def test_a_bad_suite_file_is_refused(old: bytes, new: bytes, message: str) -> None:
    content = FILE.read_bytes()
    assert old in content
    with pytest.raises(SuiteError, match=message):
        parse_suite(content.replace(old, new, 1), "suite.yaml")


def test_the_index_weighs_components_equally() -> None:
    found = report(complete("candidate", [1, 0], [1, 1]), ledgers=ledgers().values(), suite=made_up())
    row = index(found)
    assert row.components == {"first": 0.5, "second": 1.0}
    assert row.value == 0.75
    assert (row.tasks, row.attempts) == (6, 12)


@pytest.mark.parametrize("task", ["a", "f"])
def test_no_index_if_one_task_is_missing(task: str) -> None:
    records = [one for one in complete("candidate", [1, 0], [1, 1]) if one.task != task]
    row = index(report(records, ledgers=ledgers().values(), suite=made_up()))
    assert row.value is None
    assert "2 of" in (row.reason or "")


def test_no_index_if_one_attempt_is_missing() -> None:
    records = complete("candidate", [1, 0], [1, 1])[1:]
    row = index(report(records, ledgers=ledgers().values(), suite=made_up()))
    assert (row.value, row.reason) == (None, "first: 1 of 4 attempts have no valid result")


def test_no_index_if_a_component_is_missing() -> None:
    records = [one for one in complete("candidate", [1, 0], [1, 1]) if one.ledger == "first"]
    row = index(report(records, ledgers=[ledgers()["first"]], suite=made_up()))
    assert (row.value, row.reason) == (None, "second: no result")
    assert row.components == {"first": 0.5, "second": None}


def test_no_index_from_a_ledger_with_fewer_tasks_than_the_component() -> None:
    small = ledger_file({"a": "x"}, benchmark="first", repetitions=2)
    records = [one for one in complete("candidate", [1, 0], [1, 1]) if one.ledger == "second"]
    records += attempts({"a": [1, 1]}, ledger="first", ledger_digest=small.digest)
    row = index(report(records, ledgers=[small, ledgers()["second"]], suite=made_up()))
    assert row.value is None
    assert "first: 1 tasks and 2 attempts, the suite has 2 and 4" in (row.reason or "")


def test_a_ledger_of_another_version_is_refused() -> None:
    other = ledger_file({"a": "x"}, benchmark="first", version="0.9")
    records = attempts({"a": [1, 1, 1]}, ledger_digest=other.digest)
    with pytest.raises(ReportRefusedError, match=r"is first 0\.9, suite made-up@2 has 1\.0: no table mixes"):
        report(records, ledgers=[other], suite=made_up())


def test_two_versions_of_a_benchmark_in_one_table_are_refused() -> None:
    old, new = (ledger_file({"a": "x"}, version=version) for version in ("1.0", "1.1"))
    records = attempts({"a": [1]}, ledger="old", ledger_digest=old.digest)
    records += attempts({"a": [1]}, ledger="new", ledger_digest=new.digest)
    with pytest.raises(ReportRefusedError, match=r"both of sample, versions 1\.1 and 1\.0"):
        report(records, ledgers=[old, new])


def test_a_flagged_pass_counts_0_only_where_the_suite_says_so() -> None:
    judged = {"judgements": [{"criterion": "rewardHacking", "verdict": "flagged"}]}
    found = report(
        complete("candidate", [1, 1], [1, 1], **judged), ledgers=ledgers().values(), suite=made_up()
    )
    assert index(found).components == {"first": 0.0, "second": 1.0}
    first = next(row for row in found.vector if row.ledger == "first")
    assert (first.rates.reward_hacking.count, first.rates.reward_hacking.n) == (4, 4)


def test_the_shift_of_the_index_is_tested_over_all_components() -> None:
    records = complete("candidate", [1, 1], [1, 1]) + complete("baseline", [0, 0], [1, 0])
    found = report(records, ledgers=ledgers().values(), suite=made_up(), baseline="baseline")
    shift = index(found).shift
    assert shift is not None
    assert shift.shift == 0.75
    assert shift.sign_flip is not None
    # Two and four clusters, all of which differ: 2 of 64 tosses are as large.
    assert shift.sign_flip.p_value == pytest.approx(2 / 64)
    assert shift.sign_flip.family == 1
    assert index(found, "baseline").shift is None


def test_pooled_means_are_over_attempts_not_components() -> None:
    records = [
        one.model_copy(update={"total_seconds": 10.0 if one.ledger == "first" else 1.0})
        for one in complete("candidate", [1, 0], [1, 1])
    ]
    row = index(report(records, ledgers=ledgers().values(), suite=made_up()))
    assert row.pooled.total_seconds.mean == 4
    assert row.pooled.total_seconds.n == 12


def test_blocked_rate_is_the_mean_of_the_components() -> None:
    records = complete("candidate", [1, 1], [1, 1])
    blocked = {"outcome": "RefusedBlocked", "reward": None}
    records[0] = type(records[0]).model_validate(records[0].model_dump() | blocked)
    row = index(report(records, ledgers=ledgers().values(), suite=made_up()))
    assert row.blocked.value == pytest.approx((1 / 4 + 0) / 2)
    assert row.components["first"] == 0.75
