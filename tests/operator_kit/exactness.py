"""Holds everything that a run left against the script that its pods followed."""

import asyncio
import json
from collections import Counter
from collections.abc import Hashable, Iterable
from typing import Any

from assay.core.record import AttemptKey
from assay.core.scoring import decimal_string
from tests.operator_kit.cluster import Cluster, Object, until
from tests.operator_kit.fates import Script
from tests.operator_kit.journal import read_journal
from tests.operator_kit.runners import Runners

REPORT_BYTES = 64 << 20


async def completed(cluster: Cluster, run: str = "run", seconds: float = 300) -> Object:
    """The run, once it is complete."""

    async def check() -> Object | None:
        body = await cluster.get("evaluationruns", run)
        conditions = body.get("status", {}).get("conditions", [])
        done = any(one["type"] == "Complete" and one["status"] == "True" for one in conditions)
        return body if done else None

    return await until("the run is complete", check, seconds)


async def assert_exact(
    cluster: Cluster, runners: Runners, run: str = "run", *, may_repeat_pods: bool = False
) -> None:
    """Planned = recorded; every try of the script once and no other; one result each; all sums exact.

    With `may_repeat_pods` a Job may have had a second pod. The Job controller makes one when the API server's
    death leaves it with old news of a Job, but not of its pod: neither counts for anything here.
    """
    script = runners.script
    parallelism = (await cluster.get("evaluationruns", run))["spec"]["parallelism"]
    assert runners.most_live <= parallelism
    _, records = await read_journal(cluster, run)
    _same("tries in the journal", ((one.key, one.try_number) for one in records), script.tries)
    outcomes = ((one.key, one.try_number, one.outcome) for one in records)
    _same("outcomes", outcomes, ((*place, outcome) for place, outcome in script.tries.items()))
    assert sum(one.tokens.input or 0 for one in records) == script.all_tokens
    _same("Jobs that ran", runners.ran.elements(), script.tries)
    again = {(key, 1) for key in script.made_again}
    repeated = set(runners.repeated) - set(script.tries) if may_repeat_pods else runners.repeated.elements()
    _same("further pods of a Job", repeated, () if may_repeat_pods else again)
    assert await cluster.jobs(run) == []
    body = await cluster.get("evaluationruns", run)
    _check_status(script, body["status"])
    await _check_report(cluster, script, body["status"]["report"])


def _check_status(script: Script, status: Object) -> None:
    planned, scored = len(script.fates), len(script.retained)
    counts = {"planned": planned, "waiting": 0, "live": 0, "recorded": scored, "invalid": planned - scored}
    assert {name: status["attempts"][name] for name in counts} == counts
    tries = Counter(str(outcome.value) for outcome in script.tries.values())
    assert {one["outcome"]: one["tries"] for one in status["outcomes"]} == tries
    for row in status["vector"]:
        assert row["scoreStrict"] == decimal_string(script.strict(row["variant"])), row["variant"]
    assert sum(row["tries"] for row in status["vector"]) == len(script.tries)


async def _check_report(cluster: Cluster, script: Script, report: Object) -> None:
    key = report["key"].replace("report.json", "attempts.jsonl")
    content = await asyncio.to_thread(cluster.store.get_bytes, report["bucket"], key, REPORT_BYTES)
    rows: list[dict[str, Any]] = [json.loads(line) for line in content.splitlines()]
    retained = [row for row in rows if row["retained"]]
    _same("results", ((_key(row), row["tryNumber"]) for row in retained), script.retained.items())
    assert sum(row.get("reward", 0) for row in retained) == sum(map(script.score, script.fates))


def _same(what: str, found: Iterable[Hashable], wanted: Iterable[Hashable]) -> None:
    """Fails with the differences alone: thousands of equal ones say nothing."""
    there, script = Counter(list(found)), Counter(list(wanted))
    differences = {
        "beyond the script": sorted(map(str, (there - script).elements())),
        "missing": sorted(map(str, (script - there).elements())),
    }
    assert not any(differences.values()), f"{what}: {differences}"


def _key(row: dict[str, Any]) -> AttemptKey:
    return AttemptKey(row["ledger"], row["task"], row["variant"], row["repetition"])
