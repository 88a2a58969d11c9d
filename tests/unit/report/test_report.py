"""A report cannot be made without its companions, and says of itself whether it may be published."""

import json
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from assay.api.attempt_record import AttemptRecord
from assay.api.report import Report, Score
from assay.core.ledger import LedgerFile, with_line_digest
from assay.core.report_markdown import markdown
from assay.core.report_tables import document
from assay.core.score_input import ReportRefusedError
from tests.unit.report.samples import (
    DIGEST,
    START,
    attempts,
    ledger_file,
    record,
    report,
    row,
    run_record,
)
from tests.unit.report.suites import complete, ledgers, made_up


def test_missing_results_are_neither_0_nor_dropped() -> None:
    """BAR 1."""
    found = row(report(attempts({"a": [1, 1, None, None]})))
    assert (found.score.strict, found.score.valid, found.score.coverage) == (0.5, 1.0, 0.5)
    assert (found.score.attempts_valid, found.score.attempts_planned) == (2, 4)
    assert found.rates.infrastructure.count == 2
    third = found.pass_k[2]
    assert (third.k, third.pass_at) == (3, None)
    assert "fewer than 3 valid attempts" in (third.reason or "")


def test_every_attempt_without_a_result_is_listed_with_its_reason() -> None:
    file = ledger_file({"a": "x", "b": "y"}, repetitions=2)
    found = report(attempts({"a": [1, None]}, ledger_digest=file.digest), ledgers=[file])
    assert [(one.task, one.repetition, one.reason) for one in found.exclusions] == [
        ("a", 1, "too slow"),
        ("b", 0, "no try of this attempt is recorded"),
        ("b", 1, "no try of this attempt is recorded"),
    ]


def test_an_agent_timeout_with_a_verdict_is_a_score() -> None:
    """BAR 5."""
    found = row(report([record("a", agent_timed_out=True)]))
    assert (found.score.strict, found.rates.infrastructure.count) == (1, 0)


def test_a_retained_class_without_a_verdict_scores_0() -> None:
    found = row(report([record("a", outcome="AgentOOM", reward=None)]))
    assert (found.score.strict, found.score.coverage) == (0, 1)


def test_a_blocked_first_try_that_was_run_again_shows_in_the_first_try_score() -> None:
    blocked = record("a", outcome="RefusedBlocked", reward=None, retained=False)
    found = row(report([blocked, record("a", try_number=2)]))
    assert (found.score.strict, found.score.first_try_strict) == (1, 0)


def test_usage_is_a_mean_over_known_values_with_its_n() -> None:
    """BAR 7."""
    used: dict[str, Any] = {"tokens": {"input": 100, "output": 10}}
    found = row(report([record("a", **used), record("b")])).usage.tokens
    assert (found.input.mean, found.input.n, found.input.planned) == (100, 1, 2)
    assert (found.reasoning.mean, found.reasoning.reason) == (None, "none of 2 values is known")


def test_a_percentage_cannot_stand_alone() -> None:
    with pytest.raises(ValidationError):
        Score.model_validate({"strict": 0.5})
    complete_report = json.loads(report(attempts({"a": [1]})).model_dump_json(by_alias=True))
    for companion in ("usage", "rates", "harness", "repeatNoise", "sampling", "shiftReason", "replaced"):
        bare = json.loads(json.dumps(complete_report))
        del bare["vector"][0][companion]
        with pytest.raises(ValidationError, match=companion):
            Report.model_validate(bare)


def test_a_report_reads_back_as_it_was_written() -> None:
    found = report(
        complete("candidate", [1, 0], [1, 1]) + complete("baseline", [0, 0], [1, 0]),
        ledgers=ledgers().values(),
        suite=made_up(),
        baseline="baseline",
    )
    assert Report.model_validate_json(found.model_dump_json(by_alias=True)) == found


def test_a_report_names_what_it_depends_on() -> None:
    file = ledger_file({"a": "x", "b": "x"}, repetitions=1)
    harness = {"harbor": "0.26.0", "assay": "0.1.0", "commit": "a" * 40, "agent": "terminus-2"}
    found = report(attempts({"a": [1], "b": [0]}, ledger_digest=file.digest, harness=harness), ledgers=[file])
    assert found.ledgers[0].digest == row(found).ledger_digest == file.digest
    assert row(found).harness.commits == ["a" * 40]
    assert (found.code.assay, found.code.commit) == ("0.1.0", "c" * 40)
    sampling = row(found).sampling
    assert sampling is not None
    assert "one cluster" in (sampling.reason or "")


def test_a_ledger_that_no_record_names_is_refused() -> None:
    with pytest.raises(ReportRefusedError, match=r"no record is of ledger sample 1\.0"):
        report(attempts({"a": [1]}), ledgers=[ledger_file({"a": "x"})])


def test_a_baseline_without_records_is_refused() -> None:
    with pytest.raises(ReportRefusedError, match="baseline b has no record; the variants are candidate"):
        report(attempts({"a": [1]}), baseline="b")


def test_no_records_are_refused() -> None:
    with pytest.raises(ReportRefusedError, match="the files hold no record"):
        report([])


def publishable(**changes: Any) -> dict[str, Any]:
    """A run that may be published: both components, a baseline, sentinels, judges, a stable reference."""
    files = ledgers()
    judged = [
        {"criterion": "rewardHacking", "verdict": "clean"},
        {"criterion": "refusal", "verdict": "clean"},
    ]
    own: dict[str, Any] = {"judgements": judged, "started_at": START + timedelta(minutes=1)}
    records = [
        *complete("candidate", [1, 1], [1, 1], **own, harness={"agent": "terminus-2"}),
        *complete("baseline", [1, 0], [1, 0], **own, harness={"agent": "terminus-2"}),
        *complete("oracle", [1, 1], [1, 1], **own, harness={"agent": "oracle"}),
        *complete("nop", [0, 0], [0, 0], **own, harness={"agent": "nop"}),
    ]
    variants = ("candidate", "baseline", "oracle", "nop")
    return {
        "records": records,
        "ledgers": list(files.values()),
        "suite": made_up(),
        "baseline": "baseline",
        "runs": [run_record(files, variants)],
        "reference": complete("baseline", [1, 0], [1, 0], run="first", run_uid="first"),
        **changes,
    }


def test_a_run_that_meets_every_condition_is_publishable() -> None:
    found = report(**publishable())
    assert (found.reasons_against, found.publishable) == ([], True)
    assert {one.variant: one.rank for one in found.index if one.rank} == {"candidate": 1, "baseline": 2}
    assert not markdown(document(found)).startswith("**NOT")


def without(variant: str) -> list[AttemptRecord]:
    return [one for one in publishable()["records"] if one.variant != variant]


def judged_by_nobody() -> list[AttemptRecord]:
    return [one.model_copy(update={"judgements": []}) for one in publishable()["records"]]


def failing_oracle() -> list[AttemptRecord]:
    records = publishable()["records"]
    return [
        one.model_copy(update={"reward": 0.0}) if (one.variant, one.task) == ("oracle", "a") else one
        for one in records
    ]


def runs(**changes: Any) -> list[Any]:
    return [run_record(ledgers(), ("candidate", "baseline", "oracle", "nop"), **changes)]


def planned_judge() -> list[Any]:
    judge = {"name": "j", "criterion": "rewardHacking", "model": "m", "prompt_digest": DIGEST}
    return [judge]


def unpinned() -> list[AttemptRecord]:
    return [one.model_copy(update={"flags": ["PinExternal"]}) for one in publishable()["records"]]


def frozen_late() -> list[Any]:
    (run,) = runs()
    late = [one.model_copy(update={"frozen_at": START + timedelta(hours=1)}) for one in run.ledgers]
    return [run.model_copy(update={"ledgers": late})]


def of_ledgers(**changes: Any) -> list[Any]:
    """The run with these facts of its ledgers changed."""
    (run,) = runs()
    return [run.model_copy(update={"ledgers": [one.model_copy(update=changes) for one in run.ledgers]})]


def first_called(at: datetime | None) -> list[AttemptRecord]:
    """The candidate called a model, first at this time; None = nobody knows when."""
    return [
        one.model_copy(update={"calls": None if at is None else [], "first_call_at": at})
        if one.variant == "candidate"
        else one
        for one in publishable()["records"]
    ]


def unproved() -> list[LedgerFile]:
    """The ledgers, the first with a task whose oracle is neither proved nor accepted."""
    first, second = ledgers().values()
    task, *others = first.tasks
    assert task.oracle is not None
    bare = task.oracle.model_copy(update={"accepted_without_proof": None})
    tasks = (with_line_digest(task.model_copy(update={"oracle": bare})), *others)
    # Under its old digest: what is judged here is the oracle, not the bytes.
    return [replace(first, tasks=tasks), second]


def test_a_plan_can_leave_tasks_out_before_any_result() -> None:
    left_out = {"task": "b", "reason": "its reference solution fails"}
    file = ledger_file({"a": "x", "b": "y"}, repetitions=1, exclusions=[left_out])
    found = report(attempts({"a": [1], "b": [0]}, ledger_digest=file.digest), ledgers=[file])
    assert (row(found).score.strict, row(found).score.tasks) == (1, 1)
    assert found.ledgers[0].excluded == {"b": "its reference solution fails"}
    assert "b is left out by plan: its reference solution fails." in markdown(document(found))


def test_a_plan_can_give_blocked_attempts_no_result() -> None:
    blocked = record("a", outcome="RefusedBlocked", reward=None)
    for rule, coverage in (("countsAsZero", 1), ("noResult", 0)):
        file = ledger_file({"a": "x"}, repetitions=1, refusals={"after_reruns": rule})
        given = blocked.model_copy(update={"ledger_digest": file.digest})
        found = report([given], ledgers=[file])
        assert row(found).score.coverage == coverage
        assert len(found.exclusions) == 1 - coverage


def test_a_planned_judge_must_have_read_the_passes() -> None:
    file = ledger_file({"a": "x"}, repetitions=1, judges=planned_judge())
    found = report(attempts({"a": [1]}, ledger_digest=file.digest), ledgers=[file])
    assert any("1 passing attempts were not read" in reason for reason in found.reasons_against)


def test_a_planned_baseline_is_held_to_its_fingerprint() -> None:
    file = ledger_file({"a": "x"}, repetitions=1, baseline={"name": "control", "fingerprint": DIGEST})
    records = attempts({"a": [1]}, "baseline", ledger_digest=file.digest)
    found = report(records, ledgers=[file], baseline="baseline")
    assert "ledger ledger: the baseline is not control as its plan names it" in found.reasons_against


def test_a_report_counts_what_nobody_stated_or_stated_late() -> None:
    file = ledger_file({"a": "x", "b": "y"}, repetitions=1)
    header = file.header.model_copy(update={"first_result_date": "2025-06-01"})
    bare = file.tasks[0].model_copy(update={"base_commit": None})
    late = replace(file, header=header, tasks=(bare, *file.tasks[1:]))
    found = report(attempts({"a": [1], "b": [0]}, ledger_digest=file.digest), ledgers=[late])
    (ledger,) = found.ledgers
    assert ledger.facts is not None
    assert ledger.facts.unknown == {"baseCommit": 1}
    assert ledger.facts.labelled_after_results == 2
    assert ledger.facts.oracles == {"accepted": 2}
    notes = document(found).notes
    assert "ledger: baseCommit of 1 tasks is unknown." in notes
    assert "ledger: 2 tasks were labelled after the first published result." in notes
    assert "ledger: 2 oracles were accepted without proof." in notes


def test_a_report_shows_when_ledger_record_and_first_call_were() -> None:
    found = report(**publishable(records=first_called(START + timedelta(minutes=2))))
    assert found.publishable, found.reasons_against
    for ledger in found.ledgers:
        (order,) = ledger.freeze
        assert (order.run, order.problems) == ("nightly", [])
        assert (
            f"{ledger.name}: frozen 2026-11-29T12:00:00+00:00, recorded 2026-11-30T11:59:59+00:00, first "
            "model call 2026-11-30T12:02:00+00:00."
        ) in document(found).notes


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"runs": []}, "its run record (run.json) was not given"),
        ({"baseline": None}, "there is no baseline"),
        ({"reference": []}, "the baseline was not compared with an earlier run"),
        ({"ledgers": []}, "its file was not given"),
        ({"records": unpinned()}, "PinExternal: the runner image carries no ledger pin"),
        ({"records": without("oracle")}, "ledger first has no oracle sentinel"),
        ({"records": without("nop")}, "ledger second has no nop sentinel"),
        ({"records": failing_oracle()}, "the oracle sentinel did not give 1 on 1 of 2 tasks, e.g. a"),
        ({"records": judged_by_nobody()}, "passing attempts were not read for reward hacking"),
        ({"records": without("candidate")}, "variant candidate: 4 of 4 attempts have no valid result"),
        ({"runs": runs(deviations=["repetitions: 2"])}, "run nightly is NonStandard: repetitions: 2"),
        ({"runs": runs(order_seed=None)}, "were not interleaved"),
        ({"runs": runs(reused_results=True)}, "its baseline is not fresh"),
        ({"runs": runs(completed_at=None)}, "has not ended"),
        ({"runs": frozen_late()}, "was frozen after the first try had started"),
        ({"ledgers": unproved()}, "the oracles of 1 tasks are neither proved nor accepted"),
        ({"runs": of_ledgers(frozen_at=None)}, "it is not on record when the ledger was frozen"),
        ({"runs": of_ledgers(recorded_at=None)}, "run nightly: there is no first journal segment"),
        ({"runs": of_ledgers(recorded_digest=DIGEST)}, f"journal segment names ledger {DIGEST}"),
        (
            {"runs": of_ledgers(recorded_at=START - timedelta(days=2))},
            "the first journal segment was written at 2026-11-28T12:00:00+00:00, before the ledger",
        ),
        ({"records": first_called(START - timedelta(days=2))}, "the first model call began at 2026-11-28T12"),
        ({"records": first_called(None)}, "not on record when their first model call began"),
    ],
)
def test_each_condition_of_publishable_is_named_where_it_fails(changes: dict[str, Any], reason: str) -> None:
    if changes.get("ledgers") == []:
        changes |= {"suite": None, "reference": []}
    found = report(**publishable(**changes))
    assert not found.publishable
    assert any(reason in one for one in found.reasons_against), found.reasons_against


def test_a_baseline_that_drifted_stops_the_ranking() -> None:
    many = {f"t{number:02}": f"c{number}" for number in range(30)}
    file = ledger_file(many, repetitions=3)
    told = {"ledger_digest": file.digest}
    now = attempts({name: [0, 0, 0] for name in many}, "baseline", **told)
    found = report(
        now + attempts({name: [1, 1, 1] for name in many}, **told),
        ledgers=[file],
        baseline="baseline",
        reference=attempts({name: [1, 1, 1] for name in many}, "baseline", **told),
    )
    assert found.ranking.stopped
    assert any("the baseline drifted" in reason for reason in found.ranking.reasons)
    assert found.drift[0].shift == -1


@pytest.mark.parametrize("details", [False, True])
def test_every_rendering_of_what_may_not_be_published_begins_so(details: bool) -> None:
    found = report(attempts({"a": [1, 0], "b": [0, None]}))
    assert list(json.loads(found.model_dump_json(by_alias=True)))[:2] == ["verdict", "reasonsAgainst"]
    assert json.loads(found.model_dump_json(by_alias=True))["verdict"] == "NOT PUBLISHABLE"
    text = markdown(document(found, details=details))
    assert text.startswith("**NOT PUBLISHABLE**\n\n- ")
    for reason in found.reasons_against:
        assert reason.replace("_", "\\_") in text


def test_markdown_is_not_broken_by_what_records_say() -> None:
    lost = record(
        "a", retained=False, outcome="Unrecognised", reward=None, reason="a | b\n<script> `x` [y](z)"
    )
    text = markdown(document(report([lost, record("b")])))
    assert "a \\| b \\<script\\> \\`x\\` \\[y\\](z)" in text


@settings(deadline=None)
@given(data=st.data())
def test_order_and_duplicates_change_nothing_and_halves_make_the_whole(data: st.DataObject) -> None:
    rewards = st.lists(st.sampled_from([0.0, 0.5, 1.0, None]), min_size=1, max_size=3)
    tasks = data.draw(st.dictionaries(st.sampled_from("abcdef"), rewards, min_size=1, max_size=6))
    records = attempts(tasks) + attempts(tasks, "baseline")
    whole = report(records, baseline="baseline")
    shuffled = data.draw(st.permutations(records + records[: len(records) // 2]))
    assert report(shuffled, baseline="baseline") == whole
    for one in whole.vector:
        assert (one.score.strict or 0) <= (one.score.valid or 0)
