"""A second run on a ledger is tested against the first and tells of it; a run has the prices it names."""

import asyncio
import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from assay.adapters.list_prices import build_price_sheet
from assay.api.attempt_record import RunRecord
from assay.api.ledgerfile import Plan
from assay.api.report import Report
from assay.core.canonical import digest_of
from tests.api_operator.conftest import Operator, Wishes
from tests.cli.conftest import run as assay
from tests.operator_kit.cluster import Cluster

pytestmark = pytest.mark.api

LIMIT = 4 << 20
VARIANTS = ("baseline", "candidate")


async def begin_run(wishes: Wishes, name: str, **spec: Any) -> None:
    """A run of two variants on two tasks."""
    variants = [{"name": variant} for variant in VARIANTS]
    await wishes.run(name, variants=variants, baseline={"name": "baseline"}, parallelism=4, **spec)


async def finish_run(cluster: Cluster, name: str) -> dict[str, Any]:
    """Its status once every pod has ended, every other one with a pass."""
    pods = await cluster.live_pods(name, 4)
    for place, pod in enumerate(sorted(pods, key=lambda one: str(one["metadata"]["name"]))):
        await cluster.finish(pod, reward=float(place % 2))
    await cluster.condition("evaluationruns", name, "Complete", "True", "AllRecorded")
    status: dict[str, Any] = (await cluster.get("evaluationruns", name))["status"]
    return status


def fetch(cluster: Cluster, status: dict[str, Any], folder: Path) -> Path:
    """What the run left, in a folder."""
    folder.mkdir()
    place = status["report"]
    for name in ("attempts.jsonl", "run.json", "report.json"):
        key = place["key"].replace("report.json", name)
        (folder / name).write_bytes(cluster.store.get_bytes(place["bucket"], key, LIMIT))
    return folder


async def test_the_second_run_is_tested_against_the_first_and_files_say_the_same(
    cluster: Cluster, operator: Operator, wishes: Wishes, tmp_path: Path
) -> None:
    await wishes.ledger(tasks=2, where="s3", plan=Plan(repetitions=1))
    for variant in VARIANTS:
        await wishes.variant(variant)
    async with operator.running():
        await begin_run(wishes, "first")
        first = fetch(cluster, await finish_run(cluster, "first"), tmp_path / "first")
        await begin_run(wishes, "second")
        status = await finish_run(cluster, "second")
        second = fetch(cluster, status, tmp_path / "second")
    ledger = (await cluster.get("ledgers", "ledger"))["spec"]["source"]["s3"]
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(cluster.store.get_bytes(ledger["bucket"], ledger["key"], LIMIT))

    began = Report.model_validate_json((first / "report.json").read_bytes())
    (reference,) = began.references
    assert reference.is_this_run
    assert not began.ranking.stopped
    assert began.earlier_runs == []

    found = Report.model_validate_json((second / "report.json").read_bytes())
    (reference,) = found.references
    assert (reference.run, reference.is_this_run, reference.reason) == ("first", False, None)
    (drift,) = found.drift
    assert (drift.attempts_reference, drift.attempts) == (2, 2)
    assert {(one.variant, one.run, one.verdict) for one in found.earlier_runs or []} == {
        (variant, "first", "NOT PUBLISHABLE") for variant in VARIANTS
    }
    (run,) = found.runs
    assert run.journal_head is not None
    assert set(run.images) == {"runner", "sandboxd"}
    row = next(one for one in status["vector"] if one["variant"] == "candidate")
    assert row["shift"] == f"{found.vector[1].shift.shift:g}" if found.vector[1].shift else False

    arguments = ("score", second / "attempts.jsonl", "--ledger", path, "--format", "json")
    done = await asyncio.to_thread(assay, *arguments, "--reference", first / "attempts.jsonl")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout) == json.loads((second / "report.json").read_text())

    wrong = await asyncio.to_thread(assay, *arguments, "--reference", second / "attempts.jsonl")
    assert wrong.exit_code == 1
    assert "run.json names the reference run's records as" in wrong.stderr

    same = await asyncio.to_thread(assay, "compare", first / "report.json", second / "report.json")
    assert same.exit_code in (0, 3), same.stderr
    assert "WOULD HAVE FOUND" in same.stdout


async def test_a_run_waits_for_the_price_sheet_that_it_names_and_pins_it(
    cluster: Cluster, operator: Operator, wishes: Wishes, tmp_path: Path
) -> None:
    sheet = build_price_sheet(["claude-opus-5-5"], date(2026, 11, 30))
    await wishes.ledger(tasks=2, where="s3", plan=Plan(repetitions=1))
    for variant in VARIANTS:
        await wishes.variant(variant)
    named = {"digest": digest_of(sheet), "source": {"configMap": {"name": "prices"}}}
    async with operator.running():
        await begin_run(wishes, "run", priceSheet=named)
        await cluster.condition("evaluationruns", "run", "Progressing", "False", "PriceSheetUnusable")
        assert not await cluster.jobs("run")
        body = {"metadata": {"name": "prices"}, "data": {"prices.json": sheet.model_dump_json(by_alias=True)}}
        await cluster.client.create(f"/api/v1/namespaces/{cluster.namespace}/configmaps", body)
        status = await finish_run(cluster, "run")
    assert status["resolved"]["priceSheet"] == digest_of(sheet)
    folder = fetch(cluster, status, tmp_path / "run")
    report = Report.model_validate_json((folder / "report.json").read_bytes())
    assert report.prices is not None
    assert report.prices.digest == digest_of(sheet)
    assert RunRecord.model_validate_json((folder / "run.json").read_bytes()).price_sheet == digest_of(sheet)


async def test_another_sheet_than_the_named_one_makes_no_job(
    cluster: Cluster, operator: Operator, wishes: Wishes
) -> None:
    sheet = build_price_sheet(["claude-opus-5-5"], date(2026, 11, 30))
    await wishes.ledger()
    await wishes.variant()
    await asyncio.to_thread(
        cluster.store.put_bytes, cluster.bucket, "prices.json", sheet.model_dump_json(by_alias=True).encode()
    )
    place = {"s3": {"bucket": cluster.bucket, "key": "prices.json"}}
    await wishes.run(priceSheet={"digest": f"sha256:{'0' * 64}", "source": place})
    async with operator.running():
        found = await cluster.condition("evaluationruns", "run", "Progressing", "False", "PriceSheetUnusable")
    assert f"the sheet has digest {digest_of(sheet)}" in found["message"]
    assert "name this one in a new run" in found["message"]
    assert not await cluster.jobs("run")
