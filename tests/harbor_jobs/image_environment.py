"""A Harbor environment of a built image: a throw-away container without network, by buildah.

Made for jobs whose result folders the tests import. Harbor itself is the real one.
"""

import asyncio
import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from harbor.environments.base import BaseEnvironment, ExecResult
from harbor.environments.capabilities import EnvironmentCapabilities

from assay.core.dockerfile import base_image, instructions
from images.catalogue import select
from images.inputs import inputs_of
from images.rootfs import BASES
from images.store import Built, Store, cache_folder
from tests.harbor_jobs.container_steps import carry_out, run_command
from tests.images.container import Container, container


def built(reference: str) -> Built:
    """The image of that name in the build cache; `python -m images build` has put it there."""
    (image,) = (one for one in select(["deepswe", "examples"]) if reference in one.references)
    found = Store(cache_folder()).find(image.name, inputs_of(image, BASES[image.base].reference))
    assert found is not None, f"{reference} is not built: python -m images build {image.name}"
    return found


class ImageEnvironment(BaseEnvironment):
    """A container of the task's image; the verifier's is the same image with the tests copied in."""

    _container: Container

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._stack = ExitStack()

    @staticmethod
    def type() -> str:
        return "image"

    @property
    def capabilities(self) -> EnvironmentCapabilities:
        return EnvironmentCapabilities(disable_internet=True, dynamic_network_policy=True)

    def _validate_definition(self) -> None:
        pass

    async def _apply_network_policy(self, network_policy: Any) -> None:
        pass

    async def start(self, force_build: bool) -> None:
        recipe = self.environment_dir / "Dockerfile"
        is_verifier = self.environment_dir.name == "tests"
        reference = self.task_env_config.docker_image
        if is_verifier:
            reference = base_image(instructions(recipe.read_text()))
        assert reference is not None
        image = container(built(reference), cache_folder() / "test-storage")
        self._container = await asyncio.to_thread(self._stack.enter_context, image)
        await self.ensure_dirs(self._mount_targets(writable_only=True))
        if is_verifier:
            await carry_out(recipe, self._container.path, self.exec)

    async def stop(self, delete: bool) -> None:
        await asyncio.to_thread(self._stack.close)

    async def exec(
        self,
        command: str,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_sec: int | None = None,
        user: str | int | None = None,
    ) -> ExecResult:
        variables = [f"--env={name}={value}" for name, value in (self._merge_env(env) or {}).items()]
        place = cwd or self.task_env_config.workdir
        options = [*variables, *([f"--workingdir={place}"] if place else [])]
        return await run_command([*self._run(*options), "bash", "-c", command], timeout_sec)

    def _run(self, *options: str) -> list[str]:
        """What runs a command in the container, up to the command itself."""
        buildah, name = self._container._buildah, self._container._name
        inside = ("unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh")
        return [*inside, *buildah, "run", "--isolation", "chroot", *options, name, "--"]

    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        target = self._container.path(target_path)
        target.parent.mkdir(parents=True, exist_ok=True)
        await asyncio.to_thread(shutil.copy2, source_path, target)

    async def upload_dir(self, source_dir: Path | str, target_dir: str) -> None:
        await asyncio.to_thread(
            shutil.copytree, source_dir, self._container.path(target_dir), dirs_exist_ok=True
        )

    async def download_file(self, source_path: str, target_path: Path | str) -> None:
        Path(target_path).parent.mkdir(parents=True, exist_ok=True)
        await asyncio.to_thread(shutil.copy2, self._container.path(source_path), target_path)

    async def download_dir(self, source_dir: str, target_dir: Path | str) -> None:
        await asyncio.to_thread(
            shutil.copytree, self._container.path(source_dir), target_dir, dirs_exist_ok=True
        )
