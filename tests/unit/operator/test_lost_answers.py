"""A Job whose creation was not answered may be there: it takes a slot until it is known not to be."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiohttp import web

from assay.adapters.job_table import JobTable
from assay.adapters.kube import KubeClient
from assay.adapters.kube_config import KubeConfig
from assay.adapters.metrics import OperatorMetrics
from assay.core.actions import CreateJob
from assay.core.attempt_pod import Images
from assay.core.reconcile import Desired, reconcile
from assay.handlers.context import Context
from assay.handlers.creation_rate import CreationRate
from assay.handlers.errands import Errands
from assay.handlers.run_apply import Applier
from assay.handlers.run_gather import Gatherer
from assay.handlers.wake import Wake
from tests.operator_kit import builders as make

RUN, PLAN = make.run_object(), make.plan_of(tasks=2)
JOBS = "/apis/batch/v1/namespaces/evals/jobs"
Make = Callable[[list[CreateJob]], Awaitable[None]]
IMAGES = Images("assay.test/runner", "assay.test/sandboxd")


@dataclass
class Api:
    """Keeps Jobs. A creation is carried out or not, and then answered with `status`."""

    status: int
    carried_out: bool
    jobs: dict[str, Any] = field(default_factory=dict)

    async def create(self, request: web.Request) -> web.Response:
        body = json.loads(await request.read())
        if self.carried_out:
            self.jobs[body["metadata"]["name"]] = body
        return web.json_response({"message": "too bad"}, status=self.status)

    async def get(self, request: web.Request) -> web.Response:
        body = self.jobs.get(request.match_info["name"])
        return web.json_response(body) if body else web.json_response({"code": 404}, status=404)


@asynccontextmanager
async def served(api: Api) -> AsyncIterator[tuple[Gatherer, Make]]:
    app = web.Application()
    app.router.add_post(JOBS, api.create)
    app.router.add_get(f"{JOBS}/{{name}}", api.get)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    async with KubeClient(KubeConfig(f"http://127.0.0.1:{runner.addresses[0][1]}")) as client:
        parts = SimpleNamespace(
            client=client,
            store=None,
            table=JobTable(lambda _uid, _soon: None),
            lease=SimpleNamespace(held=True),
            metrics=OperatorMetrics(),
            creation_rate=CreationRate(50),
        )
        context, errands = cast(Context, parts), Errands("run")
        gatherer = Gatherer(context, RUN)
        applier = Applier(context, gatherer, errands, Wake(lambda _: None))

        async def make_jobs(wanted: list[CreateJob]) -> None:
            applier.create(RUN, PLAN, IMAGES, wanted)
            assert due(gatherer) == [], "a Job takes its slot while its creation is under way"
            await errands.finish()

        yield gatherer, make_jobs
    await runner.cleanup()


def due(gatherer: Gatherer) -> list[CreateJob]:
    """What a pass with one slot would make."""
    decision = reconcile(Desired(make.RUN_UID, PLAN, 1), {}, gatherer.observed(PLAN), make.NOW)
    return [one for one in decision.actions if isinstance(one, CreateJob)]


@pytest.mark.parametrize("carried_out", [True, False])
async def test_it_takes_a_slot_until_the_api_server_says_that_it_is_not_there(carried_out: bool) -> None:
    async with served(Api(500, carried_out)) as (gatherer, make_jobs):
        wanted = due(gatherer)
        await make_jobs(wanted)
        assert due(gatherer) == []
        await gatherer.look_for_jobs()
        assert due(gatherer) == ([] if carried_out else wanted)


async def test_a_request_that_was_turned_away_takes_none() -> None:
    async with served(Api(429, carried_out=False)) as (gatherer, make_jobs):
        wanted = due(gatherer)
        await make_jobs(wanted)
        assert due(gatherer) == wanted


async def test_a_server_that_does_not_listen_was_asked_for_nothing() -> None:
    async with served(Api(500, carried_out=True)) as (gatherer, make_jobs):
        wanted = due(gatherer)
        gatherer._context.client.config = KubeConfig("http://127.0.0.1:1")
        await make_jobs(wanted)
        assert due(gatherer) == wanted
