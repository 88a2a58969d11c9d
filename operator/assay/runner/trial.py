"""One run of Harbor's trial, ended by its own deadlines or by the pod's end."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from harbor.models.task.config import VerifierEnvironmentMode
from harbor.models.trial.config import TrialConfig
from harbor.models.trial.result import ExceptionInfo, StepResult, TimingInfo, TrialResult
from harbor.trial.hooks import TrialEvent, TrialHookEvent
from harbor.trial.trial import Trial

from assay.api.evidence import PhaseSeconds
from assay.runner.classify import AGENT, ENVIRONMENT, SETUP, VERIFIER, Failure
from assay.runner.guard import TamperGuard
from assay.runner.harbor_clock import keep_harbor_steady
from assay.runner.harbor_environment import PodContext, pod_context
from assay.runner.sandbox import SandboxError, SandboxLost
from assay.runner.steady_clock import earliest_stamp
from assay.runner.verdict import BadVerdict, Verdict, read_verdict, verdict_of

log = logging.getLogger(__name__)

RESCUE_SECONDS = 20.0
"""How long Harbor may collect what exists after it was cancelled."""


class AgentVersionMismatch(RuntimeError):
    """Another version of the agent is installed than the variant names."""


class GuardFailed(RuntimeError):
    """The agent's phase could not be closed, so no verdict may be read."""


@dataclass(slots=True)
class TrialRun:
    """What is known of a trial, also while it runs and after it was cut off."""

    result: TrialResult | None = None
    failures: list[Failure] = field(default_factory=list)
    agent_started: bool = False
    verifier_started: bool = False
    cancelled: bool = False
    agent_memory_kills: int = 0
    verifier_memory_kills: int = 0

    @property
    def phase(self) -> str:
        """The phase that Harbor is in."""
        if self.verifier_started:
            return VERIFIER
        if self.agent_started:
            return AGENT
        setup = self.result is not None and self.result.agent_setup is not None
        return SETUP if setup else ENVIRONMENT

    def failed(self, kind: str, message: str) -> None:
        """Record a failure in the present phase, once."""
        if all((known.type, known.message) != (kind, message) for known in self.failures):
            self.failures.append(Failure(kind, message, self.phase))


class _ExceptionTap(logging.Handler):
    """Harbor keeps one exception a trial and only logs a second one, e.g. a verifier's after an agent's."""

    def __init__(self, run: TrialRun) -> None:
        super().__init__(logging.DEBUG)
        self._run = run

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] and "Skipping exception record" in record.getMessage():
            error = record.exc_info[1]
            self._run.failed(type(error).__name__, str(error))


async def run_trial(
    config: TrialConfig,
    pod: PodContext,
    guard: TamperGuard,
    run: TrialRun,
    *,
    stop: asyncio.Event,
    agent_version: str | None,
    force_separate: bool,
    limit_seconds: float,
    before_verifier: Callable[[], Awaitable[None]],
) -> None:
    """Run Harbor's trial to its end and fill `run`. Nothing is raised but errors of Harbor's constructor.

    Args:
        before_verifier: Called when a verifier is about to begin, with what crosses to it on disk.
        stop: Set when the pod is told to end; the trial is then cancelled and what exists is collected.
        limit_seconds: For the whole trial: what Harbor gives no deadline (hooks, transfers) ends with it.
    """
    with pod_context(pod):
        trial = await Trial.create(config)
        if force_separate:
            trial.task.config.verifier.environment_mode = VerifierEnvironmentMode.SEPARATE
        _watch(trial, pod, guard, run, agent_version)
        watch_verifier(trial, run, before_verifier)
        await drive_trial(trial, pod, run, stop, limit_seconds)


async def drive_trial(
    trial: Trial, pod: PodContext, run: TrialRun, stop: asyncio.Event, limit_seconds: float
) -> None:
    """Run a trial that is set up to its end, as `run_trial` does."""
    keep_harbor_steady()
    tap = _ExceptionTap(run)
    trial.logger.addHandler(tap)
    try:
        await _until_done_or_stopped(trial, pod, run, stop, limit_seconds)
    finally:
        trial.logger.removeHandler(tap)
        # Absent where Harbor was cut off before it began.
        with contextlib.suppress(RuntimeError):
            run.result = trial.result
    _record_failures(run)
    if run.verifier_started:
        before = 0 if pod.separate else run.agent_memory_kills
        run.verifier_memory_kills = await _memory_kills(pod, verifier=pod.separate) - before


async def _until_done_or_stopped(
    trial: Trial, pod: PodContext, run: TrialRun, stop: asyncio.Event, limit_seconds: float
) -> None:
    work = asyncio.create_task(trial.run(), name="harbor-trial")
    stopped = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({work, stopped}, timeout=limit_seconds, return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            run.cancelled = stop.is_set()
            if not stop.is_set():
                run.failed("TrialTimeoutError", f"the trial did not end within {limit_seconds:g} s")
            pod.hold = True
            work.cancel()
            await asyncio.wait({work}, timeout=RESCUE_SECONDS)
        if not work.done():
            log.warning("Harbor did not let go within %g s of being cancelled", RESCUE_SECONDS)
            work.cancel()
            await asyncio.wait({work}, timeout=1)
    finally:
        stopped.cancel()
    if work.done() and not work.cancelled() and (error := work.exception()) is not None:
        run.failed(type(error).__name__, str(error))


def _watch(
    trial: Trial, pod: PodContext, guard: TamperGuard, run: TrialRun, agent_version: str | None
) -> None:
    async def on_agent_start(event: TrialHookEvent) -> None:
        found = event.result.agent_info.version
        if agent_version is not None and found != agent_version:
            raise AgentVersionMismatch(
                f"the variant names version {agent_version} of {event.result.agent_info.name}, "
                f"but {found} is installed: correct the AgentVariant's agent.version or its bundle image"
            )
        await guard.before_agent()
        run.agent_started = True

    async def on_agent_end(event: TrialHookEvent) -> None:
        run.agent_memory_kills = await _memory_kills(pod, verifier=False)
        try:
            await guard.after_agent(last=_is_last_step(trial))
        except SandboxLost:
            raise
        except SandboxError as error:
            raise GuardFailed(f"the agent's phase could not be closed: {error}") from error

    trial.add_hook(TrialEvent.AGENT_START, on_agent_start)
    trial.add_hook(TrialEvent.AGENT_END, on_agent_end)


def _is_last_step(trial: Trial) -> bool:
    """Whether the agent has no further step after the present one. A task without steps is one."""
    steps = trial.task.config.steps or []
    return len(trial.result.step_results or []) >= len(steps)


async def _nothing() -> None:
    pass


def watch_verifier(
    trial: Trial, run: TrialRun, before_verifier: Callable[[], Awaitable[None]] = _nothing
) -> None:
    """Note in `run` when the trial and its verifier begin."""

    async def on_start(event: TrialHookEvent) -> None:
        run.result = event.result

    async def on_verification(event: TrialHookEvent) -> None:
        if not run.verifier_started:
            run.verifier_started = True
            _record_failures(run)
            await before_verifier()

    trial.add_hook(TrialEvent.START, on_start)
    trial.add_hook(TrialEvent.VERIFICATION_START, on_verification)


def _record_failures(run: TrialRun) -> None:
    """Harbor's own records come first, each in the phase in which it was raised."""
    if run.result is None:
        return
    recorded = []
    if run.result.exception_info is not None:
        recorded.append(_failure(run.result.exception_info, run.result, run.result.agent_setup))
    for step in run.result.step_results or []:
        if step.exception_info is not None:
            recorded.append(_failure(step.exception_info, step, run.result.agent_setup))
    recorded = [failure for failure in recorded if failure.type != "CancelledError"]
    known = {(failure.type, failure.message) for failure in recorded}
    run.failures = recorded + [each for each in run.failures if (each.type, each.message) not in known]


def _failure(info: ExceptionInfo, part: TrialResult | StepResult, agent_setup: TimingInfo | None) -> Failure:
    def began(timing: TimingInfo | None) -> bool:
        return timing is not None and timing.started_at is not None and timing.started_at <= info.occurred_at

    if began(part.verifier):
        phase = VERIFIER
    elif began(part.agent_execution):
        phase = AGENT
    else:
        phase = SETUP if began(agent_setup) else ENVIRONMENT
    return Failure(info.exception_type, info.exception_message, phase)


async def _memory_kills(pod: PodContext, *, verifier: bool) -> int:
    sibling = pod.siblings.verifier if verifier else pod.siblings.environment
    if sibling is None or not sibling.ready or sibling.gone:
        return 0
    try:
        status = await sibling.client.stat()
    except SandboxError:
        return 0
    for kill in status.memory_kills:
        log.warning("%s: %s was killed for want of memory: %s", sibling.name, kill.command, kill)
    return len(status.memory_kills) + status.kernel_oom_kills


def trial_verdict(folder: Path, result: TrialResult | None) -> Verdict | BadVerdict | None:
    """The verdict that the reward files in Harbor's trial folder hold; None where no verifier got so far.

    The reward of a task in steps is Harbor's (mean or final), and every step's files must be sound.
    """
    if result is None:
        return None
    try:
        if not result.step_results:
            return _single_verdict(folder, result)
        for step in result.step_results:
            if step.verifier is None or step.verifier.started_at is None:
                return None
            began = earliest_stamp(step.verifier.started_at)
            read_verdict(folder / "steps" / step.step_name / "verifier", began)
        if result.verifier_result is None or any(
            step.verifier_result is None for step in result.step_results
        ):
            return None
        return verdict_of(dict(result.verifier_result.rewards or {}))
    except BadVerdict as bad:
        return bad


def _single_verdict(folder: Path, result: TrialResult) -> Verdict | None:
    if result.verifier is None or result.verifier.started_at is None:
        return None
    verdict = read_verdict(folder / "verifier", earliest_stamp(result.verifier.started_at))
    # Sound files after a verifier that Harbor saw fail may be half of what it meant to write.
    return verdict if result.verifier_result is not None else None


def phase_seconds(result: TrialResult | None) -> PhaseSeconds:
    """Harbor's own times, by the steady clock. Setup is container and agent together; steps are summed."""
    if result is None:
        return PhaseSeconds()
    steps = result.step_results or []
    return PhaseSeconds(
        setup=_sum([result.environment_setup, result.agent_setup]),
        agent=_sum([result.agent_execution, *(step.agent_execution for step in steps)]),
        verifier=_sum([result.verifier, *(step.verifier for step in steps)]),
        trial=_sum([TimingInfo(started_at=result.started_at, finished_at=result.finished_at)]),
    )


def _sum(timings: list[TimingInfo | None]) -> float | None:
    seconds = [
        (timing.finished_at - timing.started_at).total_seconds()
        for timing in timings
        if timing is not None and timing.started_at is not None and timing.finished_at is not None
    ]
    return round(sum(seconds), 3) if seconds else None
