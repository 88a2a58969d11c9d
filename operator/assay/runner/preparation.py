"""What must be true before the agent may start: the ledger's pin, the task's bytes, isolation."""

import asyncio
import importlib
import logging
import time
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

from assay.api.evidence import PIN_EXTERNAL, IsolationProbe
from assay.api.outcome import OutcomeClass
from assay.api.tryspec import TrySpec
from assay.runner.archive import BadArchive, extract_artifacts, extract_task
from assay.runner.context import TryContext
from assay.runner.gateway_client import Deadline, DigestMismatch, GatewayClient, GatewayError, GatewayRefused
from assay.runner.isolation import IsolationAbsent
from assay.runner.sandbox import SandboxError
from assay.runner.settings import Pod

log = logging.getLogger(__name__)

_PIN_CHARACTERS = 200

IsolationProof = asyncio.Future[list[IsolationProbe]]
"""The probes, begun as early as the runner can, because they take a second at least."""


class NotPrepared(RuntimeError):
    """The agent cannot start; `outcome` says of which kind the reason is."""

    def __init__(self, outcome: OutcomeClass, reason: str) -> None:
        super().__init__(reason)
        self.outcome = outcome


@dataclass(slots=True)
class Prepared:
    """What the preparation found out, also when it failed half-way."""

    probes: list[IsolationProbe] = field(default_factory=list)
    isolation_seconds: float | None = None
    flags: list[str] = field(default_factory=list)


async def prepare(context: TryContext, isolation: IsolationProof, found: Prepared) -> None:
    """Do everything at once, filling `found`. Raises NotPrepared for the first failure."""
    pod = context.pod
    check_pin(pod, found)
    setup = pod.spec.deadlines.setup_seconds
    await _all(
        _isolate(isolation, found),
        _fetch_task(pod, context.client, Deadline(setup)),
        _fetch_artifacts(pod, context.client, Deadline(setup)),
        context.siblings.all[0].wait_ready(pod.pending_seconds),
        asyncio.to_thread(_import_harbor, pod.spec),
    )


def _import_harbor(spec: TrySpec) -> None:
    """Import what the trial needs while the containers start: an agent with litellm takes ten seconds."""
    if spec.verify_only:
        importlib.import_module("assay.runner.verify_again")
        return
    importlib.import_module("assay.runner.trial")
    importlib.import_module("assay.runner.trial_config").import_agent(spec.agent.name, bool(spec.models))


def image_pin(pod: Pod) -> str | None:
    """The ledger's digest that this image carries; None where it carries none."""
    pin = pod.paths.ledger_pin
    return pin.read_text(errors="replace").strip()[:_PIN_CHARACTERS] if pin.exists() else None


def check_pin(pod: Pod, found: Prepared) -> None:
    """Compare the ledger's digest with the pin in this image. Raises NotPrepared where they differ."""
    pinned = image_pin(pod)
    if pinned is None:
        found.flags.append(PIN_EXTERNAL)
    elif pinned != pod.spec.ledger_digest:
        raise NotPrepared(
            OutcomeClass.LEDGER_MISMATCH,
            f"this runner image is pinned to ledger {pinned}, the run uses {pod.spec.ledger_digest}",
        )


async def _isolate(isolation: IsolationProof, found: Prepared) -> None:
    begin = time.monotonic()
    try:
        found.probes = await isolation
    except IsolationAbsent as error:
        found.probes = error.probes
        raise
    finally:
        found.isolation_seconds = round(time.monotonic() - begin, 3)


async def _fetch_task(pod: Pod, client: GatewayClient, deadline: Deadline) -> None:
    archive = pod.paths.work / "task.tar"
    await client.fetch_archive(pod.spec.task.archive_digest, archive, deadline)
    await asyncio.to_thread(extract_task, archive, pod.paths.task)
    archive.unlink()


async def _fetch_artifacts(pod: Pod, client: GatewayClient, deadline: Deadline) -> None:
    """Fetch what this try judges again, if it does."""
    judged = pod.spec.verify_only
    if judged is None:
        return
    archive = pod.paths.artifacts_archive
    try:
        await client.fetch_artifacts(judged.artifacts_digest, archive, deadline)
    except DigestMismatch as error:
        # Of one try, so it says nothing of the ledger that all tries share.
        raise NotPrepared(OutcomeClass.SETUP_FAILED, str(error)) from error
    await asyncio.to_thread(extract_artifacts, archive, pod.paths.artifacts)
    archive.unlink()


async def _all(*work: Coroutine[Any, Any, Any]) -> None:
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        await asyncio.gather(*tasks)
    except (Exception, asyncio.CancelledError) as error:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        outcome = _outcome_of(error)
        if outcome is None:
            raise
        raise NotPrepared(outcome, str(error) or type(error).__name__) from error


_OUTCOMES: tuple[tuple[type[BaseException], OutcomeClass], ...] = (
    (IsolationAbsent, OutcomeClass.ISOLATION_ABSENT),
    (DigestMismatch, OutcomeClass.LEDGER_MISMATCH),
    (GatewayRefused, OutcomeClass.SETUP_FAILED),
    (GatewayError, OutcomeClass.INFRA_START),
    (BadArchive, OutcomeClass.SETUP_FAILED),
    (SandboxError, OutcomeClass.INFRA_START),
)


def _outcome_of(error: BaseException) -> OutcomeClass | None:
    return next((outcome for kind, outcome in _OUTCOMES if isinstance(error, kind)), None)
