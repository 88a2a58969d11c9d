"""The middle of a try: prepare, run Harbor's trial, say what came of it."""

import asyncio
import logging
from collections.abc import Awaitable
from dataclasses import dataclass, field
from importlib.metadata import version

import assay
from assay.api.evidence import HarnessVersion, PhaseSeconds
from assay.api.outcome import OutcomeClass
from assay.runner.classify import Facts, Proposal, classify
from assay.runner.evidence import Evidence
from assay.runner.gateway_client import GatewayClient
from assay.runner.guard import TamperGuard
from assay.runner.model_gateway.call_log import CallLog
from assay.runner.preparation import IsolationProof, NotPrepared, Prepared, prepare
from assay.runner.scrub import Scrubber
from assay.runner.settings import Pod
from assay.runner.siblings import Siblings

log = logging.getLogger(__name__)

_SLACK_SECONDS = 900
"""For what Harbor gives no deadline: collect hooks (60 s each by default) and transfers."""


@dataclass(slots=True)
class Execution:
    """What a try came to, known step by step, so that an end at any point leaves what there is."""

    calls: CallLog
    prepared: Prepared = field(default_factory=Prepared)
    proposal: Proposal | None = None
    seconds: PhaseSeconds = field(default_factory=PhaseSeconds)
    agent_version: str | None = None


async def execute(
    pod: Pod,
    client: GatewayClient,
    evidence: Evidence,
    siblings: Siblings,
    scrubber: Scrubber,
    isolation: IsolationProof,
    end: asyncio.Event,
    execution: Execution,
) -> None:
    """Run the try and fill `execution`; its proposal is set when this returns. Raises nothing foreseen."""
    try:
        await _unless_ended(prepare(pod, client, siblings, isolation, execution.prepared), end)
    except NotPrepared as error:
        execution.proposal = Proposal(error.outcome, str(error)[:1000], flags=tuple(execution.prepared.flags))
        return
    except PodEnded:
        execution.proposal = Proposal(
            OutcomeClass.DISRUPTED, "the pod was told to end before the agent started"
        )
        return
    await _try(pod, client, evidence, siblings, scrubber, end, execution)


async def _try(
    pod: Pod,
    client: GatewayClient,
    evidence: Evidence,
    siblings: Siblings,
    scrubber: Scrubber,
    end: asyncio.Event,
    execution: Execution,
) -> None:
    # Harbor takes a second to import, which the preparation did meanwhile in a thread.
    from assay.runner.harbor_environment import EnvironmentUnusable, PodContext
    from assay.runner.model_gateway.serve import model_gateway
    from assay.runner.trial import TrialRun, phase_seconds, run_trial, trial_verdict
    from assay.runner.trial_config import keeps_processes, load_task, separate_verifier_forced, trial_config
    from assay.runner.verifier_dockerfile import DockerfileNeedsBuild

    spec = pod.spec
    context = PodContext(siblings, pod.separate, spec.task.network, bool(spec.task.verifier_image))
    run = TrialRun()
    try:
        task = load_task(pod.paths.task, spec)
        guard = TamperGuard(
            siblings.environment.client, pod.paths.tampered, not pod.separate, keeps_processes(task)
        )
        async with model_gateway(pod, client, scrubber, execution.calls, evidence) as access:
            await run_trial(
                trial_config(spec, task, pod.paths, access),
                context,
                guard,
                run,
                stop=end,
                agent_version=spec.agent.version,
                force_separate=separate_verifier_forced(task, spec),
                limit_seconds=_limit(pod),
            )
    except (EnvironmentUnusable, DockerfileNeedsBuild) as error:
        execution.proposal = Proposal(OutcomeClass.SETUP_FAILED, str(error)[:1000])
        return
    except (ValueError, OSError, ImportError) as error:
        # Harbor's constructor checks the task, the agent's name and its arguments.
        log.exception("Harbor refused the trial")
        execution.proposal = Proposal(OutcomeClass.SETUP_FAILED, f"Harbor refused the trial: {error}"[:1000])
        return
    execution.seconds = phase_seconds(run.result)
    execution.agent_version = run.result.agent_info.version if run.result else None
    flags = [*execution.prepared.flags, *execution.calls.flags]
    execution.proposal = classify(
        Facts(
            failures=run.failures,
            agent_started=run.agent_started,
            verifier_started=run.verifier_started,
            cancelled=run.cancelled,
            verdict=trial_verdict(pod.paths.trial, run.result),
            calls=execution.calls.summaries,
            has_models=any(model.role != "judge" for model in spec.models),
            agent_memory_kills=run.agent_memory_kills,
            verifier_memory_kills=run.verifier_memory_kills,
            tamper_persists=guard.persists,
            flags=[*flags, *(["tamperSuspected"] if guard.suspected else [])],
        )
    )


def _limit(pod: Pod) -> float:
    deadlines = pod.spec.deadlines
    phases = deadlines.agent_seconds + deadlines.verifier_seconds
    # Harbor grants the setup's deadline thrice: to the environment, the agent and the verifier's container.
    return 3 * deadlines.setup_seconds + phases + _SLACK_SECONDS


class PodEnded(Exception):
    """The pod was told to end."""


async def _unless_ended(work: Awaitable[None], end: asyncio.Event) -> None:
    task = asyncio.ensure_future(work)
    ended = asyncio.ensure_future(end.wait())
    try:
        await asyncio.wait({task, ended}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            task.cancel()
            await asyncio.wait({task})
            raise PodEnded
        task.result()
    finally:
        ended.cancel()


def harness_version(commit: str | None) -> HarnessVersion:
    """The code that runs this try."""
    return HarnessVersion(harbor=version("harbor"), assay=assay.__version__, commit=commit)
