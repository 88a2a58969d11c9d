"""Harbor's environment interface over the pod's sibling containers."""

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, override

from harbor.environments.base import BaseEnvironment, ExecResult, OutputCallback
from harbor.environments.capabilities import EnvironmentCapabilities
from harbor.models.task.config import NetworkMode as PhaseNetworkMode
from harbor.models.task.config import NetworkPolicy

from assay.api.ledgerfile import NetworkMode
from assay.runner.sandbox import OutputStream, SandboxPhaseEnded, SandboxRequestError
from assay.runner.siblings import Sibling, Siblings
from assay.runner.verifier_dockerfile import DockerfileNeedsBuild, read_copy_only

IMPORT_PATH = f"{__name__}:SiblingEnvironment"

_OUTPUT_BYTES = 16 << 20
_FOREVER_SECONDS = 7 * 24 * 3600.0
_KILLED, _TIMED_OUT, _CANNOT_RUN = 137, 124, 126


class EnvironmentUnusable(RuntimeError):
    """The container cannot be used for this task. Never graded: see `trial.NOT_GRADED`."""


class NetworkPolicyTooWeak(EnvironmentUnusable):
    """A phase of the task asks for less network than the pod has."""


class TaskRefused(EnvironmentUnusable):
    """The task asks for something that an attempt pod does not offer."""


@dataclass(slots=True)
class PodContext:
    """What the environments of one trial share. Harbor makes them itself, so it cannot be handed over."""

    siblings: Siblings
    separate: bool
    network: NetworkMode
    built_verifier: bool
    """The ledger names a verifier image, so that one may have been built and own /tests."""
    hold: bool = False
    """The end of the pod is near: containers are told to quit only after the evidence is safe."""


_context: ContextVar[PodContext] = ContextVar("assay_pod_context")


@contextlib.contextmanager
def pod_context(context: PodContext) -> Iterator[None]:
    """Environments that Harbor makes inside of this block belong to this pod."""
    token = _context.set(context)
    try:
        yield
    finally:
        _context.reset(token)


class SiblingEnvironment(BaseEnvironment):
    """One sibling container. Harbor gives no role: the agent's has /logs/agent among its mounts."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._pod = _context.get()
        mounts = kwargs.get("auto_mounts") or []
        self._is_agent = any(mount["target"] == "/logs/agent" for mount in mounts)
        super().__init__(*args, **kwargs)

    @staticmethod
    @override
    def type() -> str:
        return "assay-sibling"

    @property
    @override
    def capabilities(self) -> EnvironmentCapabilities:
        # The pod's policy is fixed and checked to be as strict as each phase's, so all can be claimed.
        return EnvironmentCapabilities(
            disable_internet=True,
            network_allowlist=True,
            network_allowlist_hostnames=True,
            network_allowlist_wildcard_hostnames=True,
            network_allowlist_ipv4_addresses=True,
            network_allowlist_ipv6_addresses=True,
            network_allowlist_ipv4_cidrs=True,
            network_allowlist_ipv6_cidrs=True,
            dynamic_network_policy=True,
        )

    @override
    def _validate_definition(self) -> None:
        refuse_compose(self.environment_dir)
        bundled = not self._is_agent and not self._enable_environment_dir_upload
        if bundled and not self._pod.built_verifier:
            refuse_unbuilt_verifier(self.environment_dir, self.task_env_config.docker_image)

    @property
    def _sibling(self) -> Sibling:
        siblings = self._pod.siblings
        if self._is_agent:
            return siblings.environment
        if siblings.verifier is None:
            raise TaskRefused("the task wants a separate verifier, but the ledger says verifierMode: shared")
        return siblings.verifier

    @override
    async def start(self, force_build: bool) -> None:
        for policy in (self._network_policy, *self._phase_network_policies):
            self._check_policy(policy)
        sibling = self._sibling
        if not sibling.ready:
            # Harbor bounds the wait by the phase's deadline.
            await sibling.wait_ready(_FOREVER_SECONDS)
        made = await self.ensure_dirs(self._mount_targets(writable_only=True))
        if made is not None and made.return_code != 0:
            raise EnvironmentUnusable(f"cannot make {self._mount_targets()} in {sibling.name}: {made.stderr}")
        if not self._is_agent and not self._enable_environment_dir_upload:
            await self._copy_tests()
        await self._upload_environment_dir_after_start()

    async def _copy_tests(self) -> None:
        """Do what the verifier's Dockerfile would have done to the image; a built image has it done already.

        The ledger names a verifier image also where nothing was built, so only the Dockerfile tells.
        """
        try:
            plan = read_copy_only(self.environment_dir / "Dockerfile")
        except (DockerfileNeedsBuild, FileNotFoundError):
            if self._pod.built_verifier:
                return
            raise
        for copy in plan.copies:
            if copy.source.is_dir():
                await self.upload_dir(copy.source, str(copy.target))
            else:
                await self.upload_file(copy.source, str(copy.target))
        if plan.programs:
            command = ["chmod", "0755", *(str(path) for path in plan.programs)]
            result = await self._sibling.client.exec(command, user="root")
            if result.code:
                raise EnvironmentUnusable(f"{' '.join(command)}: {result.stderr.decode(errors='replace')}")

    @override
    async def stop(self, delete: bool) -> None:
        """End the environment so that the kubelet starts the verifier; the pod's last container stays."""
        if self._is_agent and self._pod.separate and not self._pod.hold:
            await self._sibling.quit()

    def _check_policy(self, policy: NetworkPolicy) -> None:
        if self._pod.network is NetworkMode.INTERNET and policy.network_mode != PhaseNetworkMode.PUBLIC:
            raise NetworkPolicyTooWeak(
                f"the task asks for network_mode {policy.network_mode.value!r}, but the ledger gives the pod "
                "the internet: set the task's network to none in the ledger"
            )

    @override
    async def _apply_network_policy(self, network_policy: NetworkPolicy) -> None:
        self._check_policy(network_policy)

    @override
    async def exec(
        self,
        command: str,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_sec: int | None = None,
        user: str | int | None = None,
    ) -> ExecResult:
        try:
            result = await self._sibling.client.exec(
                command,
                env=self._merge_env(env),
                cwd=cwd or self.task_env_config.workdir,
                user=self._resolve_user(user),
                timeout_seconds=timeout_sec,
                on_output=_decoded(self._output_callback()),
                max_output_bytes=_OUTPUT_BYTES,
            )
        except SandboxRequestError as error:
            # As a shell has it: an agent that removed its own working directory did that, not the sandbox.
            return ExecResult(stdout="", stderr=str(error), return_code=_CANNOT_RUN)
        except SandboxPhaseEnded as error:
            return ExecResult(stdout="", stderr=str(error), return_code=_KILLED)
        stderr = result.stderr.decode(errors="replace")
        if result.truncated:
            stderr += f"\n[output beyond {_OUTPUT_BYTES} bytes was dropped]"
        if result.timed_out:
            stderr += f"\n[killed after {timeout_sec} s]"
        return ExecResult(
            stdout=result.stdout.decode(errors="replace"),
            stderr=stderr,
            return_code=_TIMED_OUT if result.timed_out else result.code,
        )

    @override
    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        await self._sibling.client.upload_file(Path(source_path), target_path)

    @override
    async def upload_dir(self, source_dir: Path | str, target_dir: str) -> None:
        await self._sibling.client.upload_dir(Path(source_dir), target_dir)

    @override
    async def download_file(self, source_path: str, target_path: Path | str) -> None:
        target = Path(target_path)
        target.parent.mkdir(parents=True, exist_ok=True)
        await self._sibling.client.download_file(source_path, target)

    @override
    async def download_dir(self, source_dir: str, target_dir: Path | str) -> None:
        result = await self._sibling.client.download_dir(source_dir, Path(target_dir))
        if result.skipped:
            self.logger.warning("left out of %s: %s", source_dir, "; ".join(result.skipped[:20]))


def refuse_unbuilt_verifier(context: Path, image: str | None) -> None:
    """Check a verifier image of the task's own, for which the ledger names no built image.

    Raises DockerfileNeedsBuild unless its Dockerfile only copies files, TaskRefused where it has none.
    """
    if (context / "Dockerfile").is_file():
        read_copy_only(context / "Dockerfile")
    elif image:
        raise TaskRefused(
            f"the task names the verifier image {image}, but the ledger's images.verifier is empty: "
            "build the ledger again"
        )


def refuse_compose(environment_dir: Path) -> None:
    """Raises TaskRefused for a task of several containers, which Harbor itself would run without them."""
    for name in ("docker-compose.yaml", "docker-compose.yml"):
        if (environment_dir / name).exists():
            raise TaskRefused(
                f"{environment_dir.name}/{name}: tasks of several containers are not supported; "
                "leave the task out of the ledger"
            )


def _decoded(callback: OutputCallback | None) -> Any:
    if callback is None:
        return None

    async def emit(stream: OutputStream, data: bytes) -> None:
        await callback(data.decode(errors="replace"), stream)

    return emit
