"""Which run is the reference for drift, and that every other run of a variant is told."""

from datetime import timedelta
from typing import Any

from assay.api.journal import LedgerRun, OpeningLedger, OpeningVariant
from assay.api.ledger_history import LedgerResult, ResultFile, VariantResult
from assay.api.report import Report
from assay.core.ledger_history import LedgerHistory, StoredReport, earlier_runs, reference_of, results_of
from assay.core.report_tables import document
from tests.unit.report.samples import DIGEST, START, attempts, ledger_file, report, run_record

OTHER = f"sha256:{'2' * 64}"
FILE = ledger_file({"a": "x", "b": "y"}, repetitions=1)
PLACE = ResultFile(key="runs/report/1/file", digest=DIGEST)


def uid(number: int) -> str:
    return f"{number:08d}-2222-3333-4444-555555555555"


def began(number: int, fingerprint: str = DIGEST) -> LedgerRun:
    return LedgerRun(
        run_uid=uid(number),
        run_name=f"run-{number}",
        namespace="evals",
        ledger=OpeningLedger(name="ledger", digest=FILE.digest, plan_digest=DIGEST, repetitions=1),
        variants=[OpeningVariant(name="their-name", fingerprint=fingerprint)],
        started_at=START - timedelta(days=10 - number),
        journal="runs/journal/",
    )


def ended(number: int, *, valid: int = 2, **changes: Any) -> LedgerResult:
    document = {
        "run_uid": uid(number),
        "run_name": f"run-{number}",
        "namespace": "evals",
        "ledger_digest": FILE.digest,
        "revision": 1,
        "completed_at": START - timedelta(days=10 - number, hours=-1),
        "follows_plan": True,
        "baseline": "their-name",
        "variants": [
            VariantResult(
                variant="their-name", fingerprint=DIGEST, strict=0.5, attempts_planned=2, attempts_valid=valid
            )
        ],
        "verdict": "NOT PUBLISHABLE",
        "attempts": PLACE,
        "report": PLACE,
    }
    return LedgerResult.model_validate({**document, **changes})


RUN = run_record({"ledger": FILE}, ["baseline", "candidate"])


def test_the_reference_is_the_first_run_whose_baseline_is_complete_and_followed_the_plan() -> None:
    history = LedgerHistory(
        [], [ended(3), ended(1, valid=1), ended(0, follows_plan=False), ended(2), ended(4)]
    )
    reference, entry = reference_of(RUN, "ledger", history, {"ledger"})
    assert (reference.run, reference.attempts, reference.is_this_run) == ("run-2", DIGEST, False)
    assert entry == ended(2)


def test_the_first_complete_run_is_the_reference_itself() -> None:
    for history in (LedgerHistory([], []), LedgerHistory([], [ended(1, valid=1)])):
        reference, entry = reference_of(RUN, "ledger", history, {"ledger"})
        assert (reference.is_this_run, entry) == (True, None)


def test_a_second_report_of_the_first_run_keeps_it_the_reference() -> None:
    own = ended(1, run_uid=RUN.uid)
    reference, _ = reference_of(RUN, "ledger", LedgerHistory([], [own, ended(2)]), set())
    assert reference.is_this_run


def test_a_baseline_of_another_fingerprint_is_no_reference() -> None:
    other = ended(1).variants[0].model_copy(update={"fingerprint": OTHER})
    reference, _ = reference_of(RUN, "ledger", LedgerHistory([], [ended(1, variants=[other])]), {"ledger"})
    assert reference.is_this_run


def test_an_incomplete_run_cannot_become_the_reference_and_says_so() -> None:
    reference, _ = reference_of(RUN, "ledger", LedgerHistory([], []), set())
    assert not reference.is_this_run
    assert "nothing to test it against" in (reference.reason or "")
    departed = RUN.model_copy(update={"deviations": ["repetitions: 1 instead of 3"]})
    assert not reference_of(departed, "ledger", LedgerHistory([], []), {"ledger"})[0].is_this_run


def test_every_other_run_of_a_variant_is_told_with_its_newest_report() -> None:
    history = LedgerHistory(
        [began(2), began(1), began(3, OTHER), began(4).model_copy(update={"run_uid": RUN.uid})],
        [ended(1), ended(1, revision=2, valid=1)],
    )
    found = [one for one in earlier_runs(RUN, "ledger", history) if one.variant == "candidate"]
    assert [(one.run, one.revision, one.attempts_valid) for one in found] == [
        ("run-1", 2, 1),
        ("run-2", None, None),
    ]
    assert found[1].strict is None
    assert "it has not ended, or was deleted" in (found[1].reason or "")


def told(**changes: Any) -> Report:
    records = [
        *attempts({"a": [1], "b": [0]}, "baseline", ledger_digest=FILE.digest, variant_fingerprint=DIGEST),
        *attempts({"a": [1], "b": [1]}, ledger_digest=FILE.digest, variant_fingerprint=DIGEST),
    ]
    run = RUN.model_copy(update=changes)
    return report(records, ledgers=[FILE], runs=[run], baseline="baseline")


def test_the_first_run_is_not_held_up_by_drift_and_says_why() -> None:
    first, _ = reference_of(RUN, "ledger", LedgerHistory([], []), {"ledger"})
    found = told(references=[first], earlier_runs=[])
    assert not found.ranking.stopped
    assert not [reason for reason in found.reasons_against if "compared" in reason]
    notes = document(found).notes
    assert (
        "ledger: drift: this is the first complete run, so its baseline is the reference for later ones."
        in notes
    )
    assert "No other run of these variants on these ledgers is on record." in notes


def test_a_reference_whose_records_are_not_there_stops_the_ranking() -> None:
    reference, _ = reference_of(RUN, "ledger", LedgerHistory([], [ended(1)]), {"ledger"})
    found = told(references=[reference.model_copy(update={"reason": "its records are gone"})])
    assert found.ranking.stopped
    assert (
        "ledger: the baseline was not compared with the reference run: its records are gone"
        in found.reasons_against
    )


def test_earlier_runs_are_printed_and_unknown_ones_are_not_called_none() -> None:
    history = LedgerHistory([began(1), began(2)], [ended(1)])
    found = told(earlier_runs=list(earlier_runs(RUN, "ledger", history)))
    (table,) = [one for one in document(found).tables if "other runs of these variants" in one.title]
    assert [row[2] for row in table.rows if row[1] == "candidate"] == ["run-1", "run-2"]
    assert any("is not known" in note for note in document(told()).notes)


def test_the_results_of_a_run_are_what_its_report_says() -> None:
    found = told()
    stored = StoredReport(found, "evals", 1, attempts_file=PLACE, report_file=PLACE)
    (result,) = results_of(RUN, stored)
    assert (result.ledger_digest, result.run_uid, result.follows_plan) == (FILE.digest, RUN.uid, True)
    assert result.baseline_result is not None
    assert (result.baseline_result.strict, result.baseline_result.complete) == (0.5, True)


def test_the_baseline_is_found_by_its_fingerprint_whatever_the_reference_run_called_it() -> None:
    mine = attempts({"a": [1], "b": [0]}, "baseline", ledger_digest=FILE.digest, variant_fingerprint=DIGEST)
    given: dict[str, Any] = {"ledgers": [FILE], "baseline": "baseline"}
    theirs = attempts({"a": [1], "b": [1]}, "old-name", ledger_digest=FILE.digest, variant_fingerprint=DIGEST)
    (drift,) = report(mine, reference=theirs, **given).drift
    assert (drift.shift, drift.attempts_reference) == (-0.5, 2)
    another = [one.model_copy(update={"variant": "baseline", "variant_fingerprint": OTHER}) for one in theirs]
    found = report(mine, reference=another, **given)
    assert (found.drift, found.ranking.stopped) == ([], True)
    assert "no records of this very baseline" in " ".join(found.ranking.reasons)
