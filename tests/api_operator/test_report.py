"""The report of a run: what lies in S3 when it has ended, and that anybody can compute it again."""

import json
from pathlib import Path
from typing import Any

import pytest

from assay.api.report import Report
from assay.core.canonical import digest_of_bytes
from tests.api_operator.conftest import Operator, Wishes
from tests.cli.conftest import run as assay
from tests.operator_kit.cluster import Cluster

pytestmark = pytest.mark.api

LIMIT = 1 << 20


async def finished(cluster: Cluster, operator: Operator, wishes: Wishes) -> dict[str, Any]:
    """Status of a run of two tasks, one of which passed."""
    await wishes.ledger(tasks=2, where="s3")
    await wishes.variant()
    await wishes.run(parallelism=2)
    async with operator.running():
        first, second = await cluster.live_pods("run", 2)
        await cluster.finish(first, reward=1.0)
        await cluster.finish(second, reward=0.0)
        await cluster.condition("evaluationruns", "run", "Complete", "True", "AllRecorded")
    status: dict[str, Any] = (await cluster.get("evaluationruns", "run"))["status"]
    return status


async def test_the_report_lies_where_the_status_says(
    cluster: Cluster, operator: Operator, wishes: Wishes
) -> None:
    status = await finished(cluster, operator, wishes)
    place = status["report"]
    content = cluster.store.get_bytes(place["bucket"], place["key"], LIMIT)
    assert (digest_of_bytes(content), place["revision"]) == (place["digest"], 1)
    report = Report.model_validate_json(content)
    (row,) = report.vector
    assert (row.score.strict, row.score.attempts_valid, row.tries) == (0.5, 2, 2)
    assert status["vector"][0]["scoreStrict"] == "0.5"
    (publishable,) = (one for one in status["conditions"] if one["type"] == "Publishable")
    assert publishable["status"] == "False"
    assert publishable["message"].startswith(report.reasons_against[0])
    assert "there is no baseline" in report.reasons_against


async def test_a_page_to_read_lies_beside_the_report(
    cluster: Cluster, operator: Operator, wishes: Wishes
) -> None:
    place = (await finished(cluster, operator, wishes))["report"]
    page = cluster.store.get_bytes(place["bucket"], place["htmlKey"], LIMIT)
    assert place["htmlKey"] == place["key"].replace(".json", ".html")
    assert digest_of_bytes(page) == place["htmlDigest"]
    text = page.decode()
    assert text.index("NOT PUBLISHABLE") < text.index("there is no baseline") < text.index("<h1")
    assert place["digest"] in text
    assert f"s3://{place['bucket']}/{place['key']}" in text


async def test_anybody_computes_the_same_report_from_the_files(
    cluster: Cluster, operator: Operator, wishes: Wishes, tmp_path: Path
) -> None:
    place = (await finished(cluster, operator, wishes))["report"]
    for name in ("attempts.jsonl", "run.json", "report.json"):
        key = place["key"].replace("report.json", name)
        (tmp_path / name).write_bytes(cluster.store.get_bytes(place["bucket"], key, LIMIT))
    ledger = (await cluster.get("ledgers", "ledger"))["spec"]["source"]["s3"]
    (tmp_path / "ledger.jsonl").write_bytes(cluster.store.get_bytes(ledger["bucket"], ledger["key"], LIMIT))
    done = assay(
        "score", tmp_path / "attempts.jsonl", "--ledger", tmp_path / "ledger.jsonl", "--format", "json"
    )
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout) == json.loads((tmp_path / "report.json").read_text())
