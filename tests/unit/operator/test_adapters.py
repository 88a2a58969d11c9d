"""The watch and what it feeds: whatever the API server does, the table ends up as the cluster is."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
from aiohttp import web

from assay.adapters.job_table import JobTable
from assay.adapters.kube import KubeClient, KubeRefused, KubeUnavailable
from assay.adapters.kube_config import KubeConfig
from assay.adapters.kube_decode import decode_events, decode_job, decode_pod
from assay.adapters.list_watch import ListWatch
from assay.api import labels
from assay.core.observation import JobEvent, JobView
from assay.core.record import AttemptKey
from tests.operator_kit import builders as make

PATH = "/apis/batch/v1/namespaces/evals/jobs"
TIME = "2026-11-30T12:00:00Z"
Object = dict[str, Any]


def job_json(name: str, version: str = "1", **status: Any) -> Object:
    return {
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "resourceVersion": version,
            "creationTimestamp": TIME,
            "labels": {labels.RUN_UID: make.RUN_UID},
            "annotations": {labels.ATTEMPT: "l\tt\tv\t0", labels.TRY_NUMBER: "1"},
            "ownerReferences": [{"uid": make.RUN_UID, "kind": "EvaluationRun", "controller": True}],
        },
        "spec": {"suspend": False, "template": {"spec": {"containers": []}}},
        "status": status,
    }


@dataclass
class FakeApi:
    """Lists in pages of two, and watches that the test writes to, ends or breaks."""

    items: list[Object] = field(default_factory=list)
    lists: int = 0
    watched_from: list[str] = field(default_factory=list)
    lines: "asyncio.Queue[bytes | None]" = field(default_factory=asyncio.Queue)
    answer: tuple[int, Object, dict[str, str]] | None = None

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if self.answer is not None:
            status, body, headers = self.answer
            return web.json_response(body, status=status, headers=headers)
        if request.query.get("watch"):
            return await self._watch(request)
        start = int(request.query.get("continue") or 0)
        self.lists += start == 0
        rest = str(start + 2) if start + 2 < len(self.items) else ""
        meta = {"resourceVersion": "100", "continue": rest}
        return web.json_response({"metadata": meta, "items": self.items[start : start + 2]})

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        self.watched_from.append(request.query["resourceVersion"])
        response = web.StreamResponse()
        await response.prepare(request)
        while (line := await self.lines.get()) is not None:
            await response.write(line)
        return response

    def send(self, type_: str, body: Object) -> None:
        self.lines.put_nowait(json.dumps({"type": type_, "object": body}).encode() + b"\n")

    def end(self) -> None:
        self.lines.put_nowait(None)


@asynccontextmanager
async def served(api: FakeApi) -> AsyncIterator[KubeClient]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", api.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    async with KubeClient(KubeConfig(f"http://{host}:{port}")) as client:
        yield client
    await runner.cleanup()


@asynccontextmanager
async def watching(api: FakeApi) -> AsyncIterator[dict[str, JobView]]:
    """A watch that keeps a table of what exists."""
    seen: dict[str, JobView] = {}

    def put(view: JobView) -> None:
        seen[view.name] = view

    def drop(view: JobView) -> None:
        seen.pop(view.name, None)

    async with served(api) as client:
        watch = ListWatch(client, PATH, "a=b", decode_job, put, drop)
        task = asyncio.create_task(watch.run())
        await asyncio.wait_for(watch.synced.wait(), 10)
        yield seen
        api.end()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def until(check: Callable[[], bool]) -> None:
    for _ in range(2000):
        if check():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("not within 20 s")


class TestListWatch:
    async def test_it_reads_every_page_and_then_follows(self) -> None:
        api = FakeApi([job_json(name) for name in ("a", "b", "c")])
        async with watching(api) as seen:
            assert set(seen) == {"a", "b", "c"}
            api.send("ADDED", job_json("d", "101"))
            api.send("DELETED", job_json("a", "102"))
            await until(lambda: set(seen) == {"b", "c", "d"})

    async def test_a_watch_that_ends_goes_on_where_it_was(self) -> None:
        api = FakeApi([job_json("a")])
        async with watching(api) as seen:
            api.send("ADDED", job_json("b", "101"))
            api.send("BOOKMARK", {"metadata": {"resourceVersion": "150"}})
            api.end()
            await until(lambda: len(api.watched_from) == 2)
            assert api.watched_from == ["100", "150"]
            assert api.lists == 1
            assert set(seen) == {"a", "b"}

    async def test_a_version_that_is_too_old_lists_again_and_drops_what_is_gone(self) -> None:
        api = FakeApi([job_json("a"), job_json("b")])
        async with watching(api) as seen:
            api.items = [job_json("b"), job_json("c")]
            api.send("ERROR", {"code": 410, "reason": "Expired", "message": "too old"})
            api.end()
            await until(lambda: set(seen) == {"b", "c"})
            assert api.lists == 2

    async def test_an_object_of_any_size_and_split_anywhere_is_one_event(self) -> None:
        api = FakeApi()
        async with watching(api) as seen:
            body = job_json("big", "101")
            body["metadata"]["annotations"]["filler"] = "x" * 900_000
            line = json.dumps({"type": "ADDED", "object": body}).encode() + b"\n"
            for start in range(0, len(line), 65_537):
                api.lines.put_nowait(line[start : start + 65_537])
            await until(lambda: "big" in seen)

    async def test_garbage_in_the_stream_lists_again(self) -> None:
        api = FakeApi([job_json("a")])
        async with watching(api) as seen:
            api.lines.put_nowait(b"{ not json\n")
            api.end()
            await until(lambda: api.lists == 2)
            assert set(seen) == {"a"}


class TestClient:
    @pytest.mark.parametrize(("status", "pause"), [(429, 7.0), (503, 7.0)])
    async def test_an_overloaded_server_is_worth_another_try(self, status: int, pause: float) -> None:
        api = FakeApi(answer=(status, {"message": "slow down"}, {"Retry-After": "7"}))
        async with served(api) as client:
            with pytest.raises(KubeUnavailable, match="slow down") as caught:
                await client.create(PATH, {})
            assert caught.value.retry_after == pause

    async def test_a_refusal_carries_the_servers_words(self) -> None:
        body = {"message": "exceeded quota", "reason": "Forbidden"}
        async with served(FakeApi(answer=(403, body, {}))) as client:
            with pytest.raises(KubeRefused, match="exceeded quota") as caught:
                await client.create(PATH, {})
            assert (caught.value.status, caught.value.reason) == (403, "Forbidden")

    async def test_a_server_that_is_away_is_unavailable(self) -> None:
        async with KubeClient(KubeConfig("http://127.0.0.1:1")) as client:
            with pytest.raises(KubeUnavailable, match="did not answer"):
                await client.get(PATH)


class TestDecode:
    def test_a_job(self) -> None:
        ended = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "m"}
        _, job = decode_job(json.dumps(job_json("a", conditions=[ended])).encode())
        assert (job.owner_uid, job.attempt_key, job.try_number) == (make.RUN_UID, "l\tt\tv\t0", 1)
        assert job.finished is not None
        assert job.finished.reason == "BackoffLimitExceeded"

    def test_a_pod_with_a_restarted_sidecar_and_an_oom_kill(self) -> None:
        oom = {"exitCode": 137, "reason": "OOMKilled", "startedAt": TIME, "finishedAt": TIME}
        body = {
            "metadata": {
                "name": "p",
                "uid": "u",
                "creationTimestamp": TIME,
                "labels": {labels.RUN_UID: make.RUN_UID},
                "ownerReferences": [{"uid": "j", "name": "job", "kind": "Job", "controller": True}],
            },
            "spec": {"containers": [{"name": "verifier", "image": "x"}]},
            "status": {
                "phase": "Failed",
                "initContainerStatuses": [
                    {
                        "name": "runner",
                        "restartCount": 1,
                        "state": {"running": {"startedAt": TIME}},
                        "lastState": {"terminated": oom},
                    },
                    {"name": "environment", "state": {"terminated": oom}, "imageID": "x@sha256:1"},
                ],
                "containerStatuses": [
                    {"name": "verifier", "state": {"waiting": {"reason": "PodInitializing"}}}
                ],
            },
        }
        _, pod = decode_pod(json.dumps(body).encode())
        assert (pod.job_name, pod.ended) == ("job", True)
        assert pod.container("runner").restarts == 1
        assert pod.container("runner").exit_code is None, "it runs again"
        assert pod.container("runner").restarted_for == "OOMKilled"
        assert pod.container("environment").reason == "OOMKilled"
        assert pod.container("environment").image_id == "x@sha256:1"
        assert pod.container("verifier").waiting_reason == "PodInitializing"
        assert not pod.container("verifier").has_started

    def test_the_newest_event_of_each_job(self) -> None:
        def event(name: str, when: str, message: str) -> Object:
            about = {"uid": "u", "name": name, "kind": "Job"}
            return {
                "metadata": {"name": "e"},
                "involvedObject": about,
                "reason": "FailedCreate",
                "message": message,
                "lastTimestamp": when,
            }

        events = [
            event("a", "2026-11-30T12:00:02Z", "new"),
            event("a", TIME, "old"),
            event("b", TIME, "other"),
        ]
        found = decode_events(json.dumps({"items": events}).encode())
        assert found == {"a": JobEvent("FailedCreate", "new"), "b": JobEvent("FailedCreate", "other")}
        late = datetime(2026, 11, 30, 12, 0, 1, tzinfo=UTC)
        assert set(decode_events(json.dumps({"items": events}).encode(), since=late)) == {"a"}
        assert decode_events(json.dumps({"items": events}).encode(), without={"FailedCreate"}) == {}


class TestTable:
    KEY = AttemptKey("ledger", "task", "oracle", 0)

    def test_why_a_container_was_restarted_is_known_when_the_kubelet_says_it_no_more(self) -> None:
        table = JobTable(lambda *_: None)
        job = make.job_view(self.KEY)
        works = make.pod_view(job, make.container("runner", restarts=1, restarted_for="OOMKilled"))
        table.put_job(job)
        for pod in (works, make.pod_view(job, make.ended("runner", restarts=1)), works):
            table.put_pod(pod)
            (seen,) = table.of(make.RUN_UID).pods[job.name].values()
            assert seen.container("runner").restarted_for == "OOMKilled"
        table.put_pod(make.pod_view(job, make.container("runner", restarts=2)))
        (again,) = table.of(make.RUN_UID).pods[job.name].values()
        assert again.container("runner").restarted_for == "", "that was another restart"

    def test_a_deleted_pod_tells_why_it_ended_as_long_as_its_job_is_there(self) -> None:
        table = JobTable(lambda _uid, _soon: None)
        job = make.job_view(self.KEY)
        pod = make.pod_view(job)
        table.put_job(job)
        table.put_pod(pod)
        table.drop_pod(pod)
        (kept,) = table.of(make.RUN_UID).pods[job.name].values()
        assert kept.gone
        table.drop_job(job)
        assert table.of(make.RUN_UID).pods == {}
        assert set(table.of(make.RUN_UID).vanished) == {job.name}

    def test_a_pod_that_outlives_its_job_stays_until_it_goes(self) -> None:
        table = JobTable(lambda _uid, _soon: None)
        job = make.job_view(self.KEY)
        pod = make.pod_view(job)
        table.put_job(job)
        table.put_pod(pod)
        table.drop_job(job)
        assert job.name in table.of(make.RUN_UID).pods
        table.drop_pod(pod)
        assert table.of(make.RUN_UID).pods == {}

    def test_a_deleted_run_leaves_nothing_behind(self) -> None:
        table = JobTable(lambda _uid, _soon: None)
        job = make.job_view(self.KEY)
        table.put_job(job)
        table.forget(make.RUN_UID)
        table.put_job(job)
        table.put_pod(make.pod_view(job))
        table.drop_job(job)
        assert (table.of(make.RUN_UID).jobs, table.of(make.RUN_UID).vanished) == ({}, {})
        assert table.of(make.RUN_UID).pods == {}

    def test_each_change_names_its_run(self) -> None:
        told: list[str] = []
        table = JobTable(lambda run_uid, _: told.append(run_uid))
        table.put_job(make.job_view(self.KEY))
        assert told == [make.RUN_UID]
