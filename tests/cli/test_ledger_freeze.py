"""`assay ledger verify --run`: does the evidence of a run show that its ledger was frozen first?"""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import Result

from assay.adapters.s3 import S3Store
from assay.api.attempt_record import LedgerFacts, RunRecord
from assay.api.evidence import CallRecord
from assay.api.journal import Opening, OpeningLedger, OpeningVariant, SegmentHeader
from assay.core.ledger import parse_ledger
from assay.core.segments import SegmentName, encode_segment
from tests.cli.conftest import run
from tests.cli.test_ledger_commands import built, images
from tests.fixtures.s3 import S3Server, new_bucket
from tests.unit.ledger_tasks import DIGEST

__all__ = ["built", "images"]

UID = "00000000-0000-4000-8000-000000000001"
FROZEN = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
PREFIX = f"runs/{UID}/"


def evidence(
    store: S3Store,
    bucket: str,
    digest: str,
    *,
    frozen: datetime | None = FROZEN,
    recorded: float = 1,
    named: str | None = None,
    call: float | None = 2,
) -> None:
    """What a run leaves; times are seconds after the freeze."""
    record = RunRecord(
        name="r",
        uid=UID,
        started_at=FROZEN,
        ledgers=[LedgerFacts(name="l", digest=digest, verified=True, frozen_at=frozen, repetitions=1)],
        variants={"v": DIGEST},
        reused_results=False,
    )
    opening = Opening(
        run_name="r",
        namespace="evals",
        ledgers=[OpeningLedger(name="l", digest=named or digest, plan_digest=DIGEST, repetitions=1)],
        variants=[OpeningVariant(name="v", fingerprint=DIGEST)],
    )
    written = FROZEN + timedelta(seconds=recorded)
    header = SegmentHeader(run_uid=UID, sequence=1, epoch=1, written_at=written, entries=0, opening=opening)
    store.put_bytes(bucket, f"{PREFIX}report/1/run.json", record.model_dump_json(by_alias=True).encode())
    name = f"{PREFIX}journal/segments/{SegmentName(0, 1, 1)}"
    store.put_bytes(bucket, name, encode_segment(header, []))
    if call is not None:
        began = FROZEN + timedelta(seconds=call)
        line = CallRecord(
            sequence=1,
            api="OpenAIChat",
            path="/v1",
            started_at=began,
            latency_seconds=1,
            streamed=False,
            status=200,
        )
        body = line.model_dump_json(by_alias=True).encode() + b"\n"
        store.put_bytes(bucket, f"{PREFIX}l/t/v/0/try-1/x/calls/000001.jsonl", body)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, None),
        ({"call": None}, None),
        ({"frozen": None}, "it is not on record when the ledger was frozen"),
        ({"recorded": -1}, "the first journal segment was written at"),
        ({"call": 0.5}, "the first model call began at"),
        ({"named": DIGEST}, f"the first journal segment names ledger {DIGEST}"),
    ],
)
def test_the_order_of_times_is_held_against_the_evidence(
    built: Path, s3_server: S3Server, given: dict[str, object], says: str | None
) -> None:
    bucket, ledger = new_bucket(s3_server), parse_ledger(built.read_bytes())
    store = S3Store(s3_server.settings)
    evidence(store, bucket, ledger.digest, **given)  # type: ignore[arg-type]
    publish(built, bucket, s3_server)
    done = verify(built, bucket, s3_server)
    line = next(line for line in done.stdout.splitlines() if "\tfreeze\t" in line)
    if says is None:
        assert done.exit_code == 0
        assert line.startswith("ok\tfreeze\tfrozen 2026-11-30T12:00:00")
    else:
        assert done.exit_code == 1
        assert line.startswith("WRONG")
        assert says in line
    store.close()


def test_a_run_of_another_ledger_is_told(built: Path, s3_server: S3Server) -> None:
    bucket = new_bucket(s3_server)
    store = S3Store(s3_server.settings)
    evidence(store, bucket, DIGEST)
    publish(built, bucket, s3_server)
    assert f"WRONG\tfreeze\trun r used {DIGEST}, not " in verify(built, bucket, s3_server).stdout
    store.close()


def test_a_prefix_without_a_run_is_named(built: Path, s3_server: S3Server) -> None:
    bucket = new_bucket(s3_server)
    publish(built, bucket, s3_server)
    assert f"s3://{bucket}/{PREFIX}report/ holds no run.json" in verify(built, bucket, s3_server).stderr


def publish(ledger: Path, bucket: str, server: S3Server) -> None:
    command = ("ledger", "publish", ledger, "--archives", ledger.parent / "archives", "--bucket", bucket)
    assert run(*command, environment=server.environment).exit_code == 0


def verify(ledger: Path, bucket: str, server: S3Server) -> Result:
    command = ("ledger", "verify", ledger, "--bucket", bucket, "--run", PREFIX)
    return run(*command, environment=server.environment)
