"""Records that contradict each other are refused; the same record twice is not."""

import pytest

from assay.core.collection import Collection
from assay.core.records_file import Place, RecordsError
from tests.unit.report.samples import DIGEST, collection, record, report


def test_a_duplicate_counts_once() -> None:
    once, twice = collection([record("a")]), collection([record("a"), record("a")])
    assert once.records == twice.records == 1


def test_two_records_of_one_try_that_disagree_are_refused() -> None:
    with pytest.raises(
        RecordsError, match=r"line 2: try 1 of repetition 0 of task a.*disagrees with .*line 1"
    ):
        collection([record("a"), record("a", reward=0.0)])


def test_two_retained_tries_of_one_attempt_are_refused() -> None:
    with pytest.raises(RecordsError, match="only one try can decide"):
        collection([record("a"), record("a", try_number=2)])


def test_two_ledgers_under_one_name_are_refused() -> None:
    with pytest.raises(RecordsError, match="ledgerDigest of ledger ledger"):
        collection([record("a"), record("b", ledger_digest=DIGEST)])


def test_two_variants_under_one_name_are_refused() -> None:
    with pytest.raises(RecordsError, match="variantFingerprint of variant candidate"):
        collection([record("a"), record("b", variant_fingerprint=DIGEST)])


def test_two_runs_in_one_row_are_refused() -> None:
    with pytest.raises(RecordsError, match="score each run alone, then use `assay compare`"):
        collection([record("a"), record("b", run="thursday", run_uid=None)])


def test_a_task_that_the_ledger_lacks_is_refused_with_its_line() -> None:
    found = Collection(None, {DIGEST: frozenset({"a"})})
    found.add(Place("attempts.jsonl", 1), record("a", ledger_digest=DIGEST))
    with pytest.raises(RecordsError, match=r"line 2: task is b, which ledger ledger .* does not have"):
        found.add(Place("attempts.jsonl", 2), record("b", ledger_digest=DIGEST))


def test_replaced_tries_are_counted_and_what_they_took_is_shown() -> None:
    lost = record(
        "a", retained=False, outcome="Disrupted", reward=None, total_seconds=30.0, tokens={"input": 100}
    )
    found = report([lost, record("a", try_number=2, total_seconds=10.0)])
    (row,) = found.vector
    assert (row.tries, row.replaced.tries, row.rates.infrastructure.count) == (2, 1, 1)
    assert row.replaced.total_seconds.total == 30
    assert row.replaced.tokens.input.total == 100
    assert row.usage.total_seconds.mean == 10
    assert (row.score.strict, row.score.first_try_strict) == (1, None)
    assert row.score.first_tries_valid == 0
