"""What fails around the operator while a run goes on: the API server, its watches, its answers, the store."""

import asyncio
import random
import sys
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from tests.fixtures.s3 import S3Server, mortal_s3, new_bucket  # noqa: F401  fixtures
from tests.operator_kit.cluster import Cluster, until
from tests.operator_kit.exactness import assert_exact, completed
from tests.operator_kit.fates import Script
from tests.operator_kit.fault_proxy import Asked, FaultProxy, Lag, Refusal
from tests.operator_kit.passes import two_more_passes
from tests.operator_kit.process import Operator, Wishes
from tests.operator_kit.runners import Runners
from tests.scale.conftest import begin, kept_running

pytestmark = pytest.mark.api

RESTARTS = 3
SEED = 6


@pytest.fixture
def script() -> Script:
    """80 attempts: each of the first eight troubles of the script is met once."""
    return Script.of(tasks=20, variants=["oracle", "other"], repetitions=2)


async def ended(runners: Runners, count: int) -> None:
    async def reached() -> bool:
        return runners.ended >= count

    await until(f"{count} tries have ended", partial(reached), seconds=180)


async def test_the_api_server_is_killed_and_comes_back(
    cluster: Cluster, operator: Operator, wishes: Wishes, script: Script
) -> None:
    runners = Runners(cluster, script)
    await begin(wishes, script, parallelism=12)
    async with runners.working(), operator.running():
        for number in range(1, RESTARTS + 1):
            await ended(runners, number * len(script.tries) // (RESTARTS + 1))
            restart = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "localcluster", "restart", "kube-apiserver", "--profile", "simulated"
            )
            assert await restart.wait() == 0
        await completed(cluster)
    await assert_exact(cluster, runners, may_repeat_pods=True)


async def test_a_store_that_refuses_stops_the_run_and_loses_nothing(
    cluster: Cluster,
    mortal_s3: S3Server,  # noqa: F811
    tmp_path: Path,
    script: Script,
) -> None:
    there = replace(cluster, store=mortal_s3.store, bucket=new_bucket(mortal_s3))
    operator, runners = Operator(there, mortal_s3, tmp_path / "log"), Runners(there, script)
    await begin(Wishes(there), script, parallelism=12)
    async with runners.working(), operator.running(ASSAY_S3_TRIES="1"):
        await ended(runners, 20)
        mortal_s3.stop()
        found = await there.condition("evaluationruns", "run", "Progressing", "False", "WaitingForStorage")
        assert "live tries go on" in found["message"]
        jobs = {one["metadata"]["uid"] for one in await there.jobs("run")}
        assert jobs, "live tries stay"
        await two_more_passes(operator)
        later = {one["metadata"]["uid"] for one in await there.jobs("run")}
        assert later == jobs, "no Job is made and none deleted while nothing can be recorded"
        mortal_s3.start()
        await completed(there)
    await assert_exact(there, runners)


async def test_watches_that_are_late_and_break_change_nothing(
    cluster: Cluster, operator: Operator, wishes: Wishes, script: Script, tmp_path: Path
) -> None:
    """D2, D4: what the operator sees is seconds old, and its streams end without a word."""
    runners = Runners(cluster, script)
    proxy = FaultProxy(lag=Lag(3.0, 60, random.Random(SEED)))
    await begin(wishes, script, parallelism=12)
    async with (
        proxy.serving(tmp_path) as kubeconfig,
        runners.working(),
        operator.running(KUBECONFIG=str(kubeconfig)),
    ):
        await completed(cluster)
    await assert_exact(cluster, runners)
    assert proxy.cuts > 0, proxy.describe()


async def test_answers_that_refuse_or_get_lost_change_nothing(
    cluster: Cluster, operator: Operator, wishes: Wishes, script: Script, tmp_path: Path
) -> None:
    """D15, BAR 3b: 409, 429 and 500 before and after the request was carried out, and no answer at all."""
    runners = Runners(cluster, script)
    proxy = FaultProxy(plan=Unreliable(random.Random(SEED)))
    await begin(wishes, script, parallelism=12)
    async with (
        proxy.serving(tmp_path) as kubeconfig,
        runners.working(),
        kept_running(operator, KUBECONFIG=str(kubeconfig)),
    ):
        await completed(cluster)
    await assert_exact(cluster, runners)
    met = Counter(what.split(": ")[1] for what in proxy.refused.elements())
    assert {"409", "429", "500", "500 after it was done", "connection broken"} <= set(met), proxy.describe()
    made = Asked("POST", "jobs", watch=False)
    assert proxy.requests[made] > len(script.tries), "creations were tried again"


class Unreliable:
    """Every fifth request meets one of the refusals that its kind can meet."""

    _READS = (Refusal(429, "TooManyRequests", retry_after=1), Refusal(500), Refusal(0))
    _WRITES = (
        Refusal(429, "TooManyRequests", retry_after=1),
        Refusal(500),
        Refusal(500, after=True),
        Refusal(0),
        Refusal(0, after=True),
    )
    _WATCHES = (*_READS, Refusal(410, "Expired"))
    _CREATIONS = (*_WRITES, Refusal(409, "AlreadyExists"))
    _CHANGES = (*_WRITES, Refusal(409, "Conflict"))

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def __call__(self, asked: Asked) -> Refusal | None:
        if self._chance.random() > 0.2:
            return None
        if asked.method == "GET":
            return self._chance.choice(self._WATCHES if asked.watch else self._READS)
        return self._chance.choice(self._CREATIONS if asked.method == "POST" else self._CHANGES)
