"""What the agent has done so far, on its way out while it works: a lost node takes half a minute with it.

These are first versions: the end uploads each file again under the same path, whole. Where it has none any
more (its container is gone, or Harbor has moved it), the first version stays what the try left.
"""

import asyncio
import logging
import shutil
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

from assay.runner.context import TryContext
from assay.runner.files import FoundFile, walk
from assay.runner.gateway_client import Deadline, GatewayError
from assay.runner.sandbox import SandboxError

log = logging.getLogger(__name__)

AGENT_LOGS = "/logs/agent"
"""Where agents that work inside their container write; Harbor fetches it when they have ended."""
_BYTES_PER_SECOND = 256 << 10
"""A try's share of the gateway, over time: what a pass has moved is waited off before the next one."""
_FILES = 2_000
_COPY_BYTES = 64 << 20
_FILE_SECONDS = 20.0


async def upload_live(context: TryContext, agent_works: Callable[[], bool], over: asyncio.Event) -> None:
    """Upload what changed in the trial's folder and the agent's logs, again and again, until `over` is set.

    Returns between two files. Raises nothing: what fails now is uploaded at the end.
    """
    pause = period = max(1.0, float(context.pod.live_upload_seconds))
    while not await _set_within(over, pause):
        moved = await _copy_logs(context) if agent_works() else 0
        moved += await _upload_changed(context, over)
        pause = max(period, moved / _BYTES_PER_SECOND)


async def _set_within(event: asyncio.Event, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True


async def _copy_logs(context: TryContext) -> int:
    """Copy the agent's logs out of its container, as far as they go. Returns the bytes that came."""
    environment, target = context.siblings.environment, context.pod.paths.agent_logs
    if not environment.ready or environment.gone:
        return 0
    try:
        await asyncio.to_thread(shutil.rmtree, target, ignore_errors=True)
        return (await environment.client.download_dir(AGENT_LOGS, target, max_bytes=_COPY_BYTES)).size
    except (SandboxError, OSError) as error:
        log.info("the agent's logs are fetched whole at the end: %s", error)
        return await asyncio.to_thread(_bytes_below, target)


def _bytes_below(folder: Path) -> int:
    return sum(found.size for found in walk(folder) if isinstance(found, FoundFile))


async def _upload_changed(context: TryContext, over: asyncio.Event) -> int:
    sent = 0
    for path, file in await asyncio.to_thread(lambda: list(islice(_files(context), _FILES))):
        if over.is_set():
            break
        try:
            sent += await context.evidence.put_unfinished(path, file, Deadline(_FILE_SECONDS))
        except (GatewayError, OSError) as error:
            log.info("%s is uploaded at the end: %s", path, error)
    return sent


def _files(context: TryContext) -> Iterator[tuple[str, Path]]:
    """Path in the evidence, and file. What Harbor has itself goes before what the agent's container has."""
    paths, taken = context.pod.paths, set()
    for prefix, folder in (("trial", paths.trial), ("trial/agent", paths.agent_logs)):
        for found in walk(folder):
            if isinstance(found, FoundFile) and (path := f"{prefix}/{found.name}") not in taken:
                taken.add(path)
                yield path, found.path
