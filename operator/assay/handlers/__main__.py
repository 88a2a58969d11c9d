"""`python -m assay.handlers`: the operator."""

import asyncio
import contextlib
import gc
import logging
import signal
import sys

import kopf
from pydantic import ValidationError

from assay.adapters.environment import BadSettings
from assay.adapters.job_table import JobTable
from assay.adapters.kube import KubeClient, KubeError
from assay.adapters.kube_config import KubeConfig, KubeConfigError, load_kube_config
from assay.adapters.kube_decode import decode_job, decode_pod
from assay.adapters.lease import Lease, LeaseLost
from assay.adapters.list_watch import ListWatch
from assay.adapters.metrics import OperatorMetrics
from assay.adapters.s3 import AsyncS3Store, S3Settings
from assay.api import labels
from assay.core.observation import JobView, PodView
from assay.handlers.context import Context
from assay.handlers.creation_rate import CreationRate
from assay.handlers.kopf_events import make_registry
from assay.handlers.ledgers import LedgerLibrary
from assay.handlers.resources import KINDS, ResourceCache, collection_path
from assay.handlers.server import serve
from assay.handlers.settings import OperatorSettings
from assay.handlers.supervisor import Supervisor, list_resources

log = logging.getLogger("assay.handlers")

SELECTOR = f"{labels.ROLE}={labels.ROLE_ATTEMPT}"

Watches = dict[tuple[str, str], ListWatch[JobView] | ListWatch[PodView]]


def main() -> int:
    """Run until a signal. Exit status 1: restart me; 2: a setting is wrong."""
    try:
        settings, storage = OperatorSettings.from_env(), S3Settings.from_env()
        config = load_kube_config()
    except (BadSettings, KubeConfigError, ValidationError, OSError) as error:
        print(f"assay.handlers: {error}", file=sys.stderr)
        return 2
    logging.basicConfig(
        level=settings.log_level.upper(),
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        stream=sys.stderr,
    )
    logging.getLogger("kopf").setLevel(logging.WARNING)
    # What lives here lives long, and a full collection of a large run's records stops every loop.
    gc.set_threshold(100_000, 50, 1000)
    try:
        asyncio.run(_until_told(settings, storage, config))
    except LeaseLost as error:
        log.error("%s: stopping", error)
        return 1
    return 0


async def _until_told(settings: OperatorSettings, storage: S3Settings, config: KubeConfig) -> None:
    """Operate until SIGTERM or SIGINT. kopf takes both over when it starts; they end us before, too."""
    work = asyncio.create_task(operate(settings, storage, config), name="operator")
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, work.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await work


async def operate(settings: OperatorSettings, storage: S3Settings, config: KubeConfig) -> None:
    """The whole operator, until a signal. Raises LeaseLost."""
    supervisor, metrics = Supervisor(), OperatorMetrics()
    store = AsyncS3Store(storage)
    servers = await serve(settings.listen, settings.health_port, settings.metrics_port, supervisor, metrics)
    try:
        async with KubeClient(config, answered=metrics.count_request) as client:
            await _wait_for_kinds(client, settings)
            lease = Lease(client, settings.namespace, settings.pod_uid)
            await lease.acquire()
            cache = ResourceCache(supervisor.changed)
            context = Context(
                settings=settings,
                client=client,
                lease=lease,
                store=store,
                cache=cache,
                table=JobTable(supervisor.notify),
                library=LedgerLibrary(client, store),
                metrics=metrics,
                creation_rate=CreationRate(settings.jobs_per_second),
            )
            try:
                await _work(context, supervisor, lease, config)
            finally:
                await lease.release()
    finally:
        for server in servers:
            await server.cleanup()
        await store.close()


async def _work(context: Context, supervisor: Supervisor, lease: Lease, config: KubeConfig) -> None:
    watches = _watches(context)
    tasks = [asyncio.create_task(lease.hold(), name="lease")]
    tasks += [asyncio.create_task(watch.run(), name=str(place)) for place, watch in watches.items()]
    try:
        # What exists must be known before anything is made: a Job that is not seen would be made again.
        await asyncio.gather(*(watch.synced.wait() for watch in watches.values()))
        await _first_list(context)
        supervisor.start(context, watches)
        log.info("working in namespaces %s", ", ".join(context.settings.run_namespaces))
        watcher = kopf.operator(
            registry=make_registry(context.cache, config),
            standalone=True,
            namespaces=context.settings.run_namespaces,
        )
        tasks.append(asyncio.create_task(watcher, name="kopf"))
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _watches(context: Context) -> Watches:
    table, client = context.table, context.client
    watches: Watches = {}
    for namespace in context.settings.run_namespaces:
        jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
        pods = f"/api/v1/namespaces/{namespace}/pods"
        watches[namespace, "jobs"] = ListWatch(
            client, jobs, SELECTOR, decode_job, table.put_job, table.drop_job
        )
        watches[namespace, "pods"] = ListWatch(
            client, pods, SELECTOR, decode_pod, table.put_pod, table.drop_pod
        )
    return watches


async def _wait_for_kinds(client: KubeClient, settings: OperatorSettings) -> None:
    """Wait until the API server serves our kinds and lets us list them."""
    told = ""
    while True:
        try:
            for plural in KINDS:
                await client.get(collection_path(plural, settings.run_namespaces[0]), {"limit": "1"})
            return
        except KubeError as error:
            if str(error) != told:
                told = str(error)
                log.warning("waiting for the API server to serve our kinds: %s", error)
            await asyncio.sleep(2.0)


async def _first_list(context: Context) -> None:
    while True:
        try:
            return await list_resources(context)
        except KubeError as error:
            log.warning("listing our resources: %s", error)
            await asyncio.sleep(2.0)


if __name__ == "__main__":
    sys.exit(main())
