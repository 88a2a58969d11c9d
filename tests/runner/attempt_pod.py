"""An attempt pod on this machine: real runner, real sandboxd, and what a kubelet does between them."""

import asyncio
import contextlib
import json
import os
import signal
import sys
import uuid
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from assay.api.evidence import TerminationMessage
from assay.api.tryspec import TrySpec
from tests.runner.containers import ROOT, Container
from tests.runner.gateway_double import TOKEN, GatewayDouble
from tests.runner.network import PodNetwork
from tests.runner.tasks import TaskFolder

LEDGER = f"sha256:{'1' * 64}"
FINGERPRINT = f"sha256:{'2' * 64}"


@dataclass
class Deadlines:
    setup: int = 30
    agent: int = 60
    verifier: int = 30
    upload: int = 20


@dataclass
class AttemptPod:
    """One attempt pod. `separate` follows the task's own mode in the tests that use it."""

    folder: Path
    binary: Path
    network_namespace: PodNetwork
    gateway: GatewayDouble
    task: TaskFolder
    agent: dict[str, Any] = field(default_factory=lambda: {"name": "oracle"})
    models: list[dict[str, Any]] = field(default_factory=list)
    separate: bool = False
    network: str = "none"
    verifier_image: str | None = None
    deadlines: Deadlines = field(default_factory=Deadlines)
    environment_variables: dict[str, str] = field(default_factory=dict)
    try_number: int = 1
    verify_only: dict[str, Any] | None = None
    uid: str = field(default_factory=lambda: str(uuid.uuid4()))
    runner: asyncio.subprocess.Process | None = None
    environment: Container = field(init=False)
    verifier: Container | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.environment = self._container("environment")
        if self.separate:
            self.verifier = self._container("verifier")
        self.gateway.archives.setdefault(self.task.digest, self.task.archive())
        (self.folder / "try.json").write_text(json.dumps(self.spec()))
        (self.folder / "token").write_text(TOKEN)

    def _container(self, name: str) -> Container:
        # As the kubelet does it, every container's host has the pod's name.
        return Container(self.folder / name, self.binary, self.network_namespace, self.name)

    @property
    def name(self) -> str:
        return f"tiny-r0-t{self.try_number}-x7k2p"

    @property
    def siblings(self) -> list[Container]:
        """The task's containers in the kubelet's order."""
        agents = [] if self.verify_only else [self.environment]
        return [*agents, *([self.verifier] if self.verifier else [])]

    def spec(self) -> dict[str, Any]:
        identity: dict[str, Any] = {
            "runName": "nightly",
            "runUid": str(uuid.uuid4()),
            "namespace": "evals",
            "ledger": "six",
            "task": "tests/tiny",
            "variant": "v",
            "repetition": 0,
            "tryNumber": self.try_number,
            "jobName": f"tiny-r0-t{self.try_number}",
        }
        wait = self.deadlines
        return {
            "identity": identity,
            "ledgerDigest": LEDGER,
            "variantFingerprint": FINGERPRINT,
            "task": {
                "id": "tests/tiny",
                "archiveDigest": self.task.digest,
                "verifierMode": "separate" if self.separate else "shared",
                "network": self.network,
                "environmentImage": "example.test/task:1",
                "verifierImage": self.verifier_image,
            },
            "agent": self.agent,
            "models": self.models,
            "deadlines": {
                "setupSeconds": wait.setup,
                "agentSeconds": wait.agent,
                "verifierSeconds": wait.verifier,
                "uploadSeconds": wait.upload,
            },
            "storage": {"bucket": "evidence", "prefix": "runs/"},
            "gatewayUrl": self.gateway.url,
            **({"verifyOnly": self.verify_only} if self.verify_only else {}),
        }

    @property
    def work(self) -> Path:
        return self.folder / "work"

    @property
    def message(self) -> TerminationMessage:
        """The termination message, as the operator would read it."""
        data = (self.folder / "termination-log").read_bytes()
        assert len(data) <= 1000
        return TerminationMessage.model_validate_json(data)

    def variables(self) -> dict[str, str]:
        """The runner container's environment."""
        verifier = self.verifier.socket if self.verifier else self.folder / "no-verifier" / "s"
        return {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": f"{ROOT / 'operator'}:{ROOT}",
            "HOME": str(self.work),
            "POD_NAME": self.name,
            "POD_UID": self.uid,
            "POD_NAMESPACE": "evals",
            "ASSAY_WORK": str(self.work),
            "ASSAY_TRY_SPEC": str(self.folder / "try.json"),
            "ASSAY_TOKEN_FILE": str(self.folder / "token"),
            "ASSAY_ENVIRONMENT_SOCKET": str(self.environment.socket),
            "ASSAY_VERIFIER_SOCKET": str(verifier),
            "ASSAY_LEDGER_PIN": str(self.folder / "ledger.pin"),
            "TERMINATION_LOG": str(self.folder / "termination-log"),
            "ASSAY_COMMIT": "0123abc",
            **self.environment_variables,
        }

    async def start_runner(self) -> None:
        with (self.folder / "runner-output").open("ab") as output:
            self.runner = await asyncio.create_subprocess_exec(
                *self.network_namespace.inside(sys.executable, "-m", "assay.runner", "run"),
                env=self.variables(),
                stderr=output,
                start_new_session=True,
            )

    async def main_containers(self) -> list[int]:
        """Run the siblings in the kubelet's order. Returns their exit codes."""
        codes = []
        for container in self.siblings:
            await container.start()
            codes.append(await container.ended())
            if codes[-1] != 0:
                break
        return codes

    async def run_to_end(self) -> list[int]:
        """The whole life of a pod that nobody deletes. Returns the siblings' exit codes."""
        await self.start_runner()
        codes = await self.main_containers()
        await self.terminate()
        return codes

    async def terminate(self) -> None:
        """SIGTERM to the runner, then wait until it has ended."""
        assert self.runner is not None
        self.runner.send_signal(signal.SIGTERM)
        status = await self.runner.wait()
        assert status == 0, self.runner_output

    async def delete(self) -> None:
        """What the kubelet does with a deleted pod: preStop first, SIGTERM once no sibling is left."""
        assert self.runner is not None
        hook = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "assay.runner", "prestop"), env=self.variables()
        )
        assert await hook.wait() == 0
        await self.environment.ended()
        await self.terminate()

    async def until(self, condition: Callable[[], bool], seconds: float = 180) -> None:
        """Wait until something is true of the pod."""
        async with asyncio.timeout(seconds):
            while not condition():  # noqa: ASYNC110 - the condition lies in other processes
                await asyncio.sleep(0.05)

    @property
    def runner_output(self) -> str:
        path = self.folder / "runner-output"
        return path.read_text(errors="replace") if path.exists() else ""

    def kill_runner(self) -> None:
        """Kill the runner's container without warning."""
        if self.runner is not None and self.runner.returncode is None:
            os.killpg(self.runner.pid, signal.SIGKILL)


@contextlib.asynccontextmanager
async def attempt_pod(**arguments: Any) -> AsyncIterator[AttemptPod]:
    """A pod; whatever is left of it is killed at the end of the block."""
    pod = AttemptPod(**arguments)
    TrySpec.model_validate(pod.spec())
    try:
        yield pod
    finally:
        pod.kill_runner()
        if pod.runner is not None:
            await pod.runner.wait()
        for container in pod.siblings:
            container.kill()
            if container.process is not None:
                await container.ended()
