"""What of a try goes where in the evidence."""

import asyncio
import logging
from functools import partial

from assay.api.evidence import ARTIFACTS
from assay.runner.context import TryContext
from assay.runner.gateway_client import Deadline, GatewayError
from assay.runner.model_gateway.call_log import upload_segments
from assay.runner.preparation import Prepared
from assay.runner.sandbox.archive import read_chunks

log = logging.getLogger(__name__)

LAST_SECONDS = 10.0
"""Time kept for each of the last documents when the files used up the upload's deadline."""
_EARLY_SECONDS = 60.0


async def upload_early(context: TryContext, prepared: Prepared) -> None:
    """Upload what is known before the agent starts. The end repeats what fails here."""
    try:
        await _upload_beginning(context, prepared, Deadline(_EARLY_SECONDS))
    except GatewayError as error:
        log.warning("the first documents are uploaded at the end: %s", error)


async def upload_all(context: TryContext, prepared: Prepared, deadline: Deadline) -> None:
    """Upload everything that the try left and the gateway does not hold. Raises GatewayError, OSError."""
    paths, evidence = context.pod.paths, context.evidence
    context.calls.close_segment()
    await _upload_beginning(context, prepared, deadline)
    await upload_segments(paths.calls, evidence, deadline)
    if context.state.sample() is not None and await asyncio.to_thread(paths.artifacts_archive.exists):
        await evidence.try_exact(ARTIFACTS, partial(read_chunks, paths.artifacts_archive), deadline)
    await evidence.put_folder("trial", paths.trial, deadline)
    await evidence.put_folder("tampered", paths.tampered, deadline)
    last = deadline.at_least(LAST_SECONDS)
    await evidence.put_omissions(last)
    if paths.log.exists():
        await evidence.put_file("runner.log", paths.log, last)


async def _upload_beginning(context: TryContext, prepared: Prepared, deadline: Deadline) -> None:
    if not prepared.probes and context.evidence.holds("isolation.json"):
        # A restarted runner took no proof; the first one's stands.
        return
    spec = context.pod.spec.model_dump_json().encode()
    probes = b",".join(probe.model_dump_json().encode() for probe in prepared.probes)
    await context.evidence.put_bytes("try-spec.json", spec, deadline)
    await context.evidence.put_bytes("isolation.json", b"[" + probes + b"]", deadline)
