"""The journal decides: operators that are killed, that meet another one, that lose the store."""

import asyncio
import contextlib
import os
import random
import signal
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

from assay.adapters.journal_store import list_ledger_runs
from assay.adapters.kube import KubeRefused
from assay.adapters.s3 import AsyncS3Store
from assay.api.outcome import OutcomeClass
from tests.api_operator.conftest import Operator, Wishes
from tests.fixtures.s3 import S3Server, mortal_s3, new_bucket  # noqa: F401  fixtures
from tests.operator_kit.cluster import Cluster, Object, try_spec, until
from tests.operator_kit.journal import read_journal, recorded, tries_by_task

pytestmark = pytest.mark.api

KILLS = 10
ATTEMPTS = 60
TRIES = ATTEMPTS + ATTEMPTS // 10
"""One attempt in ten is tried twice."""


@dataclass
class Nodes:
    """Ends pods soon after they appear, by a script: (task, try number) to class; else graded with 1."""

    cluster: Cluster
    script: dict[tuple[str, int], OutcomeClass] = field(default_factory=dict)
    ran: Counter[tuple[str, int]] = field(default_factory=Counter)
    _seen: set[str] = field(default_factory=set)

    @asynccontextmanager
    async def working(self, run: str = "run") -> AsyncIterator[None]:
        """Works for as long as the block runs."""
        task = asyncio.create_task(self._work(run))
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def have_ended(self, count: int) -> bool:
        """Whether so many tries have run."""
        return sum(self.ran.values()) >= count

    async def _work(self, run: str) -> None:
        while True:
            for pod in await self.cluster.pods(run):
                if pod["metadata"]["uid"] not in self._seen:
                    self._seen.add(pod["metadata"]["uid"])
                    with contextlib.suppress(KubeRefused):  # its Job was just deleted
                        await self._end(pod)
            await asyncio.sleep(0.1)

    async def _end(self, pod: Object) -> None:
        spec = try_spec(pod)
        place = (spec.task.id, spec.identity.try_number)
        self.ran[place] += 1
        outcome = self.script.get(place, OutcomeClass.GRADED)
        if outcome is OutcomeClass.AGENT_OOM:
            await self.cluster.end(pod, 137, "OOMKilled")  # nothing in S3 tells of it
        elif outcome is OutcomeClass.GRADED:
            await self.cluster.finish(pod)
        else:
            await self.cluster.finish(pod, outcome, None, reason="by the script")


def script(attempts: int) -> dict[tuple[str, int], OutcomeClass]:
    """A tenth fails once and is tried again, a tenth runs out of memory."""
    failed = {(f"task-{number}", 1): OutcomeClass.SETUP_FAILED for number in range(0, attempts, 10)}
    lost = {(f"task-{number}", 1): OutcomeClass.AGENT_OOM for number in range(5, attempts, 10)}
    return failed | lost


async def complete(cluster: Cluster) -> None:
    async def check() -> bool:
        status = (await cluster.get("evaluationruns", "run")).get("status", {})
        found = status.get("conditions", [])
        return any(one["type"] == "Complete" and one["status"] == "True" for one in found)

    await until("the run is complete", check, seconds=180)


async def test_an_operator_killed_again_and_again_loses_nothing_and_repeats_nothing(
    cluster: Cluster, operator: Operator, wishes: Wishes
) -> None:
    """BAR 3: planned = recorded, each once; limits exact; Jobs gone; the journal sound."""
    await wishes.ledger(tasks=ATTEMPTS)
    await wishes.variant()
    # Few at a time: the operator is fast enough to be done before it was killed often.
    await wishes.run(parallelism=3)
    chance = random.Random(6)
    nodes = Nodes(cluster, script(ATTEMPTS))
    async with nodes.working():
        for _ in range(KILLS):
            process = await operator.start()
            more = sum(nodes.ran.values()) + chance.randint(1, 6)
            await until("it works", partial(nodes.have_ended, min(more, TRIES)))
            await asyncio.sleep(chance.uniform(0, 0.5))  # a random point, not a condition
            process.kill()
            await process.wait()
        async with operator.running():
            await complete(cluster)
    report, records = await read_journal(cluster)
    again = {(f"task-{number}", 2): 1 for number in range(0, ATTEMPTS, 10)}
    expected = Counter({(f"task-{number}", 1): 1 for number in range(ATTEMPTS)} | again)
    assert tries_by_task(records) == expected
    assert nodes.ran == expected, "no try ran twice"
    outcomes = Counter(one.outcome for one in records)
    assert outcomes == {OutcomeClass.GRADED: 54, OutcomeClass.SETUP_FAILED: 6, OutcomeClass.AGENT_OOM: 6}
    assert len(report.epochs) > KILLS // 2, "most of the killed ones had recorded something"
    assert await cluster.jobs("run") == []
    status = (await cluster.get("evaluationruns", "run"))["status"]
    assert status["attempts"] == {"planned": 60, "waiting": 0, "live": 0, "recorded": 60, "invalid": 0}


async def test_an_operator_that_was_cut_off_cannot_go_on_beside_its_successor(
    cluster: Cluster, operator: Operator, wishes: Wishes
) -> None:
    """The first one is stopped in the middle of its work, and wakes when another has taken over."""
    await wishes.ledger(tasks=40)
    await wishes.variant()
    await wishes.run(parallelism=4)
    nodes = Nodes(cluster, script(40))
    first = await operator.start(POD_UID="first")
    async with nodes.working():
        await until("some tries have run", partial(nodes.have_ended, 6))
        os.kill(first.pid, signal.SIGSTOP)
        async with operator.running(POD_UID="second"):
            await until("the second operator works", partial(nodes.have_ended, 16), seconds=120)
            os.kill(first.pid, signal.SIGCONT)
            assert await asyncio.wait_for(first.wait(), 60) == 1, "it ends, to be started anew"
            await complete(cluster)
    report, records = await read_journal(cluster)
    expected = Counter({(f"task-{number}", 1): 1 for number in range(40)})
    expected += Counter({(f"task-{number}", 2): 1 for number in range(0, 40, 10)})
    assert tries_by_task(records) == expected
    assert nodes.ran == expected
    assert len(report.epochs) == 2


async def test_a_run_waits_for_a_store_that_is_away_and_loses_nothing(
    cluster: Cluster,
    mortal_s3: S3Server,  # noqa: F811
    tmp_path: Path,
) -> None:
    there = replace(cluster, store=mortal_s3.store, bucket=new_bucket(mortal_s3))
    operator, wishes = Operator(there, mortal_s3, tmp_path / "log"), Wishes(there)
    await wishes.ledger(tasks=4)
    await wishes.variant()
    await wishes.run(parallelism=2)
    async with operator.running(ASSAY_S3_TRIES="1"):
        scored, lost = await there.live_pods("run", 2)
        await there.finish(scored)

        async def one_recorded() -> bool:
            return len(await recorded(there)) == 1

        await until("the first result is durable", one_recorded)
        mortal_s3.stop()
        await there.end(lost, 137, "OOMKilled")
        await there.condition("evaluationruns", "run", "Progressing", "False", "WaitingForStorage")
        names = {job["metadata"]["name"] for job in await there.jobs("run")}
        assert try_spec(lost).identity.job_name in names, "a Job stays as long as its result is not durable"
        mortal_s3.start()
        async with Nodes(there, _seen={lost["metadata"]["uid"]}).working():
            await complete(there)
    records = await recorded(there)
    assert Counter(one.outcome for one in records) == {OutcomeClass.GRADED: 3, OutcomeClass.AGENT_OOM: 1}
    assert await there.jobs("run") == []


async def test_nothing_goes_on_with_a_journal_that_somebody_changed(
    cluster: Cluster, operator: Operator, wishes: Wishes
) -> None:
    await wishes.ledger(tasks=2)
    await wishes.variant()
    await wishes.run(parallelism=1)
    async with operator.running():
        (pod,) = await cluster.live_pods("run", 1)
        await cluster.finish(pod)

        async def one_recorded() -> bool:
            return len(await recorded(cluster)) == 1

        await until("the result is durable", one_recorded)
    opening = next(
        one.key for one in cluster.store.list_keys(cluster.bucket, "") if "/segments/0/" in one.key
    )
    content = cluster.store.get_bytes(cluster.bucket, opening, 1 << 20)
    cluster.store.client.delete_object(Bucket=cluster.bucket, Key=opening)
    async with operator.running():
        found = await cluster.condition("evaluationruns", "run", "Progressing", "False", "JournalDamaged")
        assert "00000001-" in found["message"]
        assert "is missing" in found["message"]
        cluster.store.put_bytes(cluster.bucket, opening, content)
        async with Nodes(cluster).working():
            await complete(cluster)
    assert len(await recorded(cluster)) == 2


async def test_a_run_is_on_its_ledgers_list_from_its_first_job_on_also_when_it_is_deleted(
    cluster: Cluster, operator: Operator, wishes: Wishes
) -> None:
    await wishes.ledger()
    await wishes.variant()
    run = await wishes.run()
    async with operator.running():
        await cluster.live_pods("run", 1)
        await cluster.delete("evaluationruns", "run")
    digest = (await cluster.get("ledgers", "ledger"))["spec"]["digest"]
    store = AsyncS3Store(cluster.store.settings)
    (found,) = await list_ledger_runs(store, cluster.bucket, digest)
    await store.close()
    assert (found.run_uid, found.run_name) == (run["metadata"]["uid"], "run")
    assert [one.name for one in found.variants] == ["oracle"]
    assert found.started_at <= datetime.now(UTC)
