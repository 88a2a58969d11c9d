"""Harbor's trial without an agent: a fresh verifier judges what an earlier try left."""

import asyncio
from pathlib import Path
from typing import override

from harbor.models.task.config import VerifierEnvironmentMode
from harbor.models.task.task import Task
from harbor.models.trial.config import TrialConfig
from harbor.models.trial.result import TimingInfo
from harbor.tasks.client import TaskDownloadResult
from harbor.trial.hooks import TrialEvent
from harbor.trial.regrade import RegradeTrial

from assay.runner.harbor_environment import PodContext, pod_context
from assay.runner.trial import TrialRun, drive_trial, watch_verifier


class VerifierTrial(RegradeTrial):
    """A single-step trial that begins where the agent's environment has ended.

    Harbor's own regrade refuses what its manifest calls skipped, e.g. an artefact inside of /logs/artifacts,
    and copies recorded outputs. Here the verifier gets the folder that its predecessor got, as it was.
    """

    def __init__(
        self, config: TrialConfig, task: Task, download: TaskDownloadResult, artifacts: Path
    ) -> None:
        self._artifacts = artifacts
        super().__init__(
            config, _task=task, _task_download_result=download, _source_trial_dir=artifacts.parent
        )

    @classmethod
    async def of(cls, config: TrialConfig, artifacts: Path) -> "VerifierTrial":
        """The trial of the task that `config` names; `artifacts` is the folder of what crosses."""
        task, download = await cls._load_task(config)
        task.config.verifier.environment_mode = VerifierEnvironmentMode.SEPARATE
        return cls(config, task, download, artifacts)

    @override
    def _load_source_result(self) -> None:
        """What the judged try found out is in its own manifest; nothing of it decides here."""

    @override
    async def _prepare(self) -> None:
        """Nothing: the artefacts are there, and no environment of an agent is started."""

    @override
    async def _run(self) -> None:
        await self._emit(TrialEvent.VERIFICATION_START)
        self.result.verifier = TimingInfo(started_at=self._now())
        try:
            self.result.verifier_result = await self._run_separate_verifier(
                key="trial",
                timeout_sec=self._verifier_timeout_sec,
                artifacts_dir=self._artifacts,
                user=self.task.config.verifier.user,
            )
        finally:
            self.result.verifier.finished_at = self._now()


async def run_verifier(
    config: TrialConfig,
    pod: PodContext,
    run: TrialRun,
    *,
    artifacts: Path,
    stop: asyncio.Event,
    limit_seconds: float,
) -> None:
    """Judge the artefacts and fill `run`; otherwise as `trial.run_trial`."""
    with pod_context(pod):
        trial = await VerifierTrial.of(config, artifacts)
        watch_verifier(trial, run)
        await drive_trial(trial, pod, run, stop, limit_seconds)
