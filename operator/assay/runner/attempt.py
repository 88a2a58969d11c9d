"""One try, top to bottom: run it, save what it left, tell the containers to quit.

Whatever happens, the order at the end is the same: evidence, manifest, termination message, quit.
"""

import asyncio
import logging
import time
from dataclasses import replace

from assay.api.evidence import Manifest, TryResult
from assay.api.outcome import OutcomeClass
from assay.runner import steady_clock
from assay.runner.classify import Proposal
from assay.runner.context import TryContext
from assay.runner.evidence import Evidence
from assay.runner.execution import Execution, execute, harness_version
from assay.runner.gateway_client import Deadline, GatewayClient, GatewayError, GatewayRefused
from assay.runner.model_gateway.call_log import CallLog
from assay.runner.preparation import IsolationProof
from assay.runner.saving import LAST_SECONDS, upload_all
from assay.runner.scrub import Scrubber
from assay.runner.settings import Pod
from assay.runner.siblings import Siblings
from assay.runner.state import RunnerState
from assay.runner.stop import PodEnd
from assay.runner.termination import termination_message, write_termination_message

log = logging.getLogger(__name__)

_LAST_QUIT_SECONDS = 2.0
_RESTARTED = "the runner's container restarted in the middle of the try; the agent is never run twice"


async def run_try(pod: Pod, end: PodEnd, isolation: IsolationProof) -> None:
    """Run the try that this pod is for; returns when the pod may end."""
    siblings = Siblings(*pod.siblings)
    state, scrubber = RunnerState(pod.paths.state), Scrubber()
    try:
        async with GatewayClient(pod.spec.gateway_url, pod.paths.token, scrubber.add) as client:
            evidence, calls = Evidence(client, scrubber, state), CallLog(pod.paths.calls, scrubber)
            context = TryContext(pod, siblings, state, scrubber, client, evidence, calls)
            message = await _recorded_end(context, end, isolation)
        write_termination_message(pod.paths.termination_log, message)
        end.over()
        await quit_siblings(siblings, end)
    finally:
        isolation.cancel()
        await asyncio.gather(isolation, return_exceptions=True)
        await siblings.close()


async def _recorded_end(context: TryContext, end: PodEnd, isolation: IsolationProof) -> bytes:
    """Run the try unless it ran before, and leave its evidence. Returns the termination message."""
    first = context.state.claim()
    before = context.state.finished()
    if before is not None:
        log.info("this try had ended before the runner was restarted")
        return before
    execution = Execution()
    if first:
        await _execute(context, end, isolation, execution)
    else:
        _restarted(context.state, execution)
    message = await _save(context, execution)
    context.state.finish(message)
    return message


def _restarted(state: RunnerState, execution: Execution) -> None:
    """What is known of a try whose first runner was killed: of the agent's phase, whether it had ended."""
    proposal = Proposal(OutcomeClass.RUNNER_RESTARTED, _RESTARTED)
    sample = state.sample()
    if sample is not None:
        execution.seconds, execution.agent_version = sample.seconds, sample.agent_version
        proposal = replace(
            proposal,
            graded_as=sample.graded_as,
            agent_timed_out=sample.agent_timed_out,
            flags=tuple(sample.flags),
        )
    execution.proposal = proposal


async def _execute(context: TryContext, end: PodEnd, isolation: IsolationProof, execution: Execution) -> None:
    try:
        await execute(context, isolation, end.rescue, execution)
    except Exception as error:
        log.exception("the try ended in a way that the runner does not know")
        reason = f"{type(error).__name__}: {error}"
        execution.proposal = Proposal(OutcomeClass.UNRECOGNISED, reason, flags=tuple(context.calls.flags))


async def _save(context: TryContext, execution: Execution) -> bytes:
    """Upload everything, then the manifest. Returns the termination message."""
    began = time.monotonic()
    pod, deadline = context.pod, Deadline(context.pod.spec.deadlines.upload_seconds)
    proposal = execution.proposal or Proposal(OutcomeClass.UNRECOGNISED, "the try ended without an outcome")
    # An exception's message may quote what the agent or a provider said.
    proposal = replace(proposal, reason=context.scrubber.scrub_text(proposal.reason)[:1000])
    log.info(
        "outcome %s, reward %s: %s", proposal.outcome, proposal.reward, proposal.reason or "as it should be"
    )
    try:
        await upload_all(context, execution.prepared, deadline)
        proposal = _if_partial(context.evidence, proposal)
        result = _result(context, execution, proposal, round(time.monotonic() - began, 3))
        digest = await _write_manifest(context, result, deadline)
    except (GatewayError, OSError) as error:
        log.error("the evidence is not complete: %s", error)
        conflict = isinstance(error, GatewayRefused) and error.status == 409
        outcome = proposal.outcome if conflict else OutcomeClass.ARTIFACTS_PARTIAL
        reason = context.scrubber.scrub_text(str(error))
        return termination_message(pod.spec.identity.job_name, pod.uid, outcome, reason=reason)
    return termination_message(
        pod.spec.identity.job_name, pod.uid, proposal.outcome, proposal.reward, digest, proposal.reason
    )


def _if_partial(evidence: Evidence, proposal: Proposal) -> Proposal:
    if not evidence.failed:
        return proposal
    path, why = next(iter(evidence.failed.items()))
    reason = f"{len(evidence.failed)} files were not uploaded, first {path}: {why}"
    return Proposal(OutcomeClass.ARTIFACTS_PARTIAL, reason[:1000], flags=proposal.flags)


def _result(
    context: TryContext, execution: Execution, proposal: Proposal, upload_seconds: float
) -> TryResult:
    failure, prepared = proposal.failure, execution.prepared
    times = {"isolation": prepared.isolation_seconds, "upload": upload_seconds}
    return TryResult(
        outcome=proposal.outcome,
        reason=proposal.reason,
        reward=proposal.reward,
        rewards=proposal.rewards,
        agent_timed_out=proposal.agent_timed_out,
        agent_version=execution.agent_version,
        exception_type=failure.type[:200] if failure else None,
        exception_phase=failure.phase if failure else None,
        started_at=context.state.started_at,
        finished_at=steady_clock.now(),
        seconds=execution.seconds.model_copy(update=times),
        tokens=context.calls.tokens,
        model_calls=context.calls.model_calls if context.pod.spec.models else None,
        harness=harness_version(context.pod),
        isolation=prepared.probes,
        flags=list(proposal.flags),
        graded_as=proposal.graded_as,
    )


async def _write_manifest(context: TryContext, result: TryResult, deadline: Deadline) -> str:
    spec = context.pod.spec
    manifest = Manifest(
        identity=spec.identity,
        pod_uid=context.pod.uid,
        ledger_digest=spec.ledger_digest,
        variant_fingerprint=spec.variant_fingerprint,
        archive_digest=spec.task.archive_digest,
        files=context.evidence.files,
        result=result,
        verify_only=spec.verify_only,
    )
    return await context.client.put_manifest(
        manifest.model_dump_json().encode(), deadline.at_least(LAST_SECONDS)
    )


async def quit_siblings(siblings: Siblings, end: PodEnd) -> None:
    """Tell the siblings to quit, then wait for the kubelet's SIGTERM; it comes once they are gone."""
    quitting = asyncio.create_task(siblings.quit_all())
    terminated = asyncio.create_task(end.terminated.wait())
    await asyncio.wait({quitting, terminated}, return_when=asyncio.FIRST_COMPLETED)
    if not quitting.done():
        # The pod is being deleted: a sibling that has not started yet never will.
        await asyncio.wait({quitting}, timeout=_LAST_QUIT_SECONDS)
        quitting.cancel()
    await terminated
