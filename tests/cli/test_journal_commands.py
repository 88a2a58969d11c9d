"""`assay journal` as a third party types it, on a real S3 server."""

import asyncio
import json
from datetime import UTC, datetime

import pytest
from typer.testing import CliRunner, Result

from assay.adapters.journal_store import JournalStore, add_ledger_runs
from assay.adapters.s3 import AsyncS3Store
from assay.api.journal import LedgerRun, Opening, OpeningLedger, OpeningVariant
from assay.api.outcome import OutcomeClass
from assay.cli.app import app
from tests.fixtures.s3 import S3Server, bucket, s3_server  # noqa: F401  fixtures
from tests.operator_kit.builders import DIGEST
from tests.unit.journal.memory import NOW, RUN_UID, record

PREFIX = f"runs/{RUN_UID}/journal/"
LEDGER = OpeningLedger(name="deepswe", digest=DIGEST, plan_digest=DIGEST, repetitions=1)
VARIANT = OpeningVariant(name="oracle", fingerprint=DIGEST)


@pytest.fixture
def head(s3_server: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch) -> str:  # noqa: F811
    """A journal of three tries in three segments; the digest of the last one."""
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)

    async def write() -> str:
        store = AsyncS3Store(s3_server.settings)
        journals = JournalStore(store, bucket, PREFIX, RUN_UID)
        journal = await journals.take_over(7, "pod")
        opening = Opening(run_name="nightly", namespace="evals", ledgers=[LEDGER], variants=[VARIANT])
        await journals.write(journal, journal.next_segment([record(1)], NOW, opening))
        lost = record(2, outcome=OutcomeClass.SETUP_FAILED, reward=None, reason="apt-get timed out")
        for one in (lost, record(2, 2)):
            await journals.write(journal, journal.next_segment([one], NOW))
        run = LedgerRun(
            run_uid=RUN_UID,
            run_name="nightly",
            namespace="evals",
            ledger=LEDGER,
            variants=[VARIANT],
            started_at=datetime(2026, 11, 30, tzinfo=UTC),
            journal=PREFIX,
        )
        await add_ledger_runs(store, bucket, [run])
        await store.close()
        assert journal.head is not None
        return journal.head.digest

    return asyncio.run(write())


def assay(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["journal", *arguments])


def test_a_sound_journal(head: str, bucket: str) -> None:  # noqa: F811
    result = assay("verify", f"s3://{bucket}/{PREFIX}", "--head", head, "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert (found["segments"], found["tries"], found["run"]) == (3, 3, "evals/nightly")
    assert found["ledgers"] == {"deepswe": DIGEST}


def test_a_segment_that_somebody_removed(head: str, bucket: str, s3_server: S3Server) -> None:  # noqa: F811
    key = f"{PREFIX}segments/0/00000002-000000000007.jsonl.gz"
    s3_server.store.client.delete_object(Bucket=bucket, Key=key)
    result = assay("verify", f"s3://{bucket}/{PREFIX}", "--head", head)
    assert result.exit_code == 1
    assert "00000002-000000000007.jsonl.gz is missing" in result.stderr


def test_a_journal_that_ends_before_the_head_that_one_holds(
    head: str,
    bucket: str,  # noqa: F811
    s3_server: S3Server,  # noqa: F811
) -> None:
    key = f"{PREFIX}segments/0/00000003-000000000007.jsonl.gz"
    s3_server.store.client.delete_object(Bucket=bucket, Key=key)
    assert assay("verify", f"s3://{bucket}/{PREFIX}").exit_code == 0
    result = assay("verify", f"s3://{bucket}/{PREFIX}", "--head", head)
    assert result.exit_code == 1
    assert head in result.stderr


def test_every_try_is_shown_with_why_it_was_classified_so(head: str, bucket: str) -> None:  # noqa: F811
    result = assay("show", f"s3://{bucket}/{PREFIX}")
    assert result.exit_code == 0, result.output
    lines = [line.split("\t") for line in result.stdout.splitlines()]
    assert [line[5] for line in lines] == ["OUTCOME", "Graded", "SetupFailed", "Graded"]
    assert lines[2][-1] == "apt-get timed out"


def test_the_runs_of_a_ledger(head: str, bucket: str) -> None:  # noqa: F811
    result = assay("runs", bucket, "--ledger", DIGEST)
    assert f"evals\tnightly\t{RUN_UID}\toracle\ts3://{bucket}/{PREFIX}" in result.stdout


@pytest.mark.parametrize("address", ["evidence/journal", "s3://evidence/journal", "s3://evidence/runs/x/"])
def test_an_address_that_is_none(head: str, address: str) -> None:
    result = assay("verify", address)
    assert result.exit_code == 1
    assert "give s3://BUCKET/PREFIX/RUN-UID/journal/" in result.stderr


def test_a_head_that_is_no_digest() -> None:
    result = assay("verify", "s3://evidence/runs/x/journal/", "--head", "abc")
    assert result.exit_code == 2
