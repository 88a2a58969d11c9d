"""The middle of a try: prepare, run Harbor's trial, say what came of it."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Iterator
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from typing import TYPE_CHECKING

import assay
from assay.api.evidence import ARTIFACTS, HarnessVersion, PhaseSeconds
from assay.api.outcome import OutcomeClass
from assay.runner.classify import AGENT, Facts, Proposal, classify
from assay.runner.context import TryContext
from assay.runner.guard import TamperGuard
from assay.runner.live_upload import upload_live
from assay.runner.preparation import IsolationProof, NotPrepared, Prepared, image_pin, prepare
from assay.runner.sample import Sample, pack_artifacts
from assay.runner.saving import upload_early
from assay.runner.settings import Pod

if TYPE_CHECKING:
    from assay.runner.trial import TrialRun

log = logging.getLogger(__name__)

_SLACK_SECONDS = 900
"""For what Harbor gives no deadline: collect hooks (60 s each by default) and transfers."""


_LIVE_UPLOAD_SECONDS = 5.0
"""For the upload that is under way when the trial ends: one cut off could arrive after the final one."""


@dataclass(slots=True)
class Execution:
    """What a try came to, known step by step, so that an end at any point leaves what there is."""

    prepared: Prepared = field(default_factory=Prepared)
    proposal: Proposal | None = None
    seconds: PhaseSeconds = field(default_factory=PhaseSeconds)
    agent_version: str | None = None


async def execute(
    context: TryContext, isolation: IsolationProof, end: asyncio.Event, execution: Execution
) -> None:
    """Run the try and fill `execution`; its proposal is set when this returns. Raises nothing foreseen.

    Args:
        end: Set when the pod is told to end.
    """
    prepared = execution.prepared
    try:
        await _unless_ended(prepare(context, isolation, prepared), end)
        await (_verify_again if context.pod.spec.verify_only else _try)(context, end, execution)
    except NotPrepared as error:
        execution.proposal = Proposal(error.outcome, str(error), flags=tuple(prepared.flags))
    except PodEnded:
        execution.proposal = Proposal(
            OutcomeClass.DISRUPTED,
            "the pod was told to end before the agent started",
            flags=tuple(prepared.flags),
        )


async def _try(context: TryContext, end: asyncio.Event, execution: Execution) -> None:
    # Harbor takes a second to import, which the preparation did meanwhile in a thread.
    from assay.runner.harbor_environment import PodContext
    from assay.runner.model_gateway.serve import model_gateway
    from assay.runner.trial import TrialRun, run_trial
    from assay.runner.trial_config import keeps_processes, load_task, separate_verifier_forced, trial_config

    pod, spec, siblings = context.pod, context.pod.spec, context.siblings
    run = TrialRun()
    early = asyncio.create_task(upload_early(context, execution.prepared))
    over = asyncio.Event()
    live = asyncio.create_task(upload_live(context, lambda: run.phase == AGENT, over))
    try:
        with _refusals_named():
            task = load_task(pod.paths.task, spec)
            keep = keeps_processes(task)
            guard = TamperGuard(siblings.environment.client, pod.paths.tampered, not pod.separate, keep)
            async with model_gateway(context) as access:
                await run_trial(
                    trial_config(spec, task, pod.paths, access),
                    PodContext(siblings, pod.separate, spec.task.network, bool(spec.task.verifier_image)),
                    guard,
                    run,
                    stop=end,
                    agent_version=spec.agent.version,
                    force_separate=separate_verifier_forced(task, spec),
                    limit_seconds=_limit(pod),
                    before_verifier=lambda: _keep_sample(context, run, guard, execution),
                )
    finally:
        over.set()
        early.cancel()
        await asyncio.wait({live}, timeout=_LIVE_UPLOAD_SECONDS)
        live.cancel()
        await asyncio.wait({early, live})
    _conclude(context, run, guard, execution)


async def _verify_again(context: TryContext, end: asyncio.Event, execution: Execution) -> None:
    from assay.runner.harbor_environment import PodContext
    from assay.runner.trial import TrialRun
    from assay.runner.trial_config import load_task, trial_config
    from assay.runner.verify_again import run_verifier

    pod, spec = context.pod, context.pod.spec
    run = TrialRun()
    with _refusals_named():
        task = load_task(pod.paths.task, spec)
        await run_verifier(
            trial_config(spec, task, pod.paths, None),
            PodContext(context.siblings, pod.separate, spec.task.network, bool(spec.task.verifier_image)),
            run,
            artifacts=pod.paths.artifacts,
            stop=end,
            limit_seconds=_limit(pod),
        )
    _conclude(context, run, None, execution)
    proposal, judged = execution.proposal, spec.verify_only
    if proposal and judged and proposal.outcome is OutcomeClass.GRADED:
        # What the agent did decides the class as much as the verdict: a fallback model, a full context.
        execution.proposal = replace(proposal, outcome=judged.graded_as)


@contextlib.contextmanager
def _refusals_named() -> Iterator[None]:
    """Raises NotPrepared for what Harbor or this runner refuses about a task."""
    from assay.runner.harbor_environment import EnvironmentUnusable
    from assay.runner.verifier_dockerfile import DockerfileNeedsBuild

    try:
        yield
    except (EnvironmentUnusable, DockerfileNeedsBuild) as error:
        raise NotPrepared(OutcomeClass.SETUP_FAILED, str(error)) from error
    except (ValueError, OSError, ImportError) as error:
        # Harbor's constructor checks the task, the agent's name and its arguments.
        log.exception("Harbor refused the trial")
        raise NotPrepared(OutcomeClass.SETUP_FAILED, f"Harbor refused the trial: {error}") from error


def _conclude(context: TryContext, run: "TrialRun", guard: TamperGuard | None, execution: Execution) -> None:
    from assay.runner.trial import phase_seconds, trial_verdict

    execution.seconds = phase_seconds(run.result)
    agent_ran = run.result is not None and context.pod.spec.verify_only is None
    execution.agent_version = run.result.agent_info.version if run.result and agent_ran else None
    flags = [*execution.prepared.flags, *context.calls.flags]
    execution.proposal = classify(
        Facts(
            failures=run.failures,
            agent_started=run.agent_started,
            verifier_started=run.verifier_started,
            cancelled=run.cancelled,
            verdict=trial_verdict(context.pod.paths.trial, run.result),
            calls=context.calls.summaries,
            has_models=any(model.role != "judge" for model in context.pod.spec.models),
            agent_memory_kills=run.agent_memory_kills,
            verifier_memory_kills=run.verifier_memory_kills,
            tamper_persists=guard is not None and guard.persists,
            flags=[*flags, *(["tamperSuspected"] if guard is not None and guard.suspected else [])],
        )
    )


async def _keep_sample(
    context: TryContext, run: "TrialRun", guard: TamperGuard, execution: Execution
) -> None:
    """Keep what the agent's phase came to: whatever happens to this verifier, another one can judge it."""
    pod = context.pod
    if not pod.separate:
        return
    so_far = Execution(execution.prepared)
    _conclude(context, run, guard, so_far)
    proposal = so_far.proposal
    if proposal is None or proposal.graded_as is None:
        return
    folder, archive = pod.paths.trial / "artifacts", pod.paths.artifacts_archive
    problem = await asyncio.to_thread(pack_artifacts, folder, archive, context.evidence.largest_file)
    if problem is not None:
        log.warning("the artefacts cannot be judged again: %s", problem)
        context.evidence.leave_out(ARTIFACTS, problem)
    context.state.keep_sample(
        Sample(
            graded_as=proposal.graded_as,
            agent_timed_out=proposal.agent_timed_out,
            agent_version=so_far.agent_version,
            seconds=so_far.seconds,
            flags=list(proposal.flags),
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


_COMMIT_CHARACTERS = 40


def harness_version(pod: Pod) -> HarnessVersion:
    """The code that runs this try, and the ledger that its image is pinned to."""
    return HarnessVersion(
        harbor=version("harbor"),
        assay=assay.__version__,
        commit=pod.commit[:_COMMIT_CHARACTERS] if pod.commit else None,
        ledger_pin=image_pin(pod),
    )
