"""A minimal Harbor environment: commands in a chroot of the host's own programs, in namespaces of their own.

Made for jobs whose result folders the tests import. Harbor itself is the real one.
"""

import shutil
import tempfile
from pathlib import Path
from typing import Any

from harbor.environments.base import BaseEnvironment, ExecResult
from harbor.environments.capabilities import EnvironmentCapabilities

from tests.harbor_jobs.container_steps import carry_out, run_command

_ENTER = """
set -e
root=$1; cwd=$2; command=$3
mount --make-rprivate /
mkdir -p "$root"/usr "$root"/etc "$root"/proc "$root"/dev "$root"/tmp "$root"/root "$root$cwd"
mount --bind /usr "$root"/usr
for name in bin sbin lib lib64; do [ -e "$root"/$name ] || ln -s usr/$name "$root"/$name; done
cp -a /etc/passwd /etc/group /etc/ld.so.cache /etc/alternatives "$root"/etc/ 2>/dev/null || true
mount -t proc proc "$root"/proc
mount --rbind /dev "$root"/dev
exec chroot "$root" sh -c 'cd "$0" && exec bash -c "$1"' "$cwd" "$command"
"""


class FolderEnvironment(BaseEnvironment):
    """One folder that is the root of every command. `start` builds the image into it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._root = Path(tempfile.mkdtemp(prefix="assay-harbor-"))

    @staticmethod
    def type() -> str:
        return "folder"

    @property
    def capabilities(self) -> EnvironmentCapabilities:
        return EnvironmentCapabilities(disable_internet=True, dynamic_network_policy=True)

    def _validate_definition(self) -> None:
        pass

    async def _apply_network_policy(self, network_policy: Any) -> None:
        pass

    async def start(self, force_build: bool) -> None:
        (self._root / "app").mkdir()
        await self.ensure_dirs(self._mount_targets(writable_only=True))
        if self.environment_dir.name == "tests":
            await self._build(self.environment_dir.parent / "environment")
        await self._build(self.environment_dir)

    async def _build(self, context: Path) -> None:
        """Carry out the Dockerfile; programs of its base are the host's."""
        await carry_out(context / "Dockerfile", self._inside, lambda command: self.exec(command, cwd="/app"))

    async def stop(self, delete: bool) -> None:
        shutil.rmtree(self._root)

    async def exec(
        self,
        command: str,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_sec: int | None = None,
        user: str | int | None = None,
    ) -> ExecResult:
        flags = ("--mount", "--pid", "--fork", "--kill-child", "--net", "--ipc")
        place = cwd or self.task_env_config.workdir or "/app"
        argv = ["unshare", *flags, "sh", "-c", _ENTER, "enter", str(self._root), place, command]
        variables = {
            "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin",
            "HOME": "/root",
            **(self._merge_env(env) or {}),
        }
        return await run_command(argv, timeout_sec, variables)

    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        target = self._inside(target_path)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source_path, target)

    async def upload_dir(self, source_dir: Path | str, target_dir: str) -> None:
        shutil.copytree(source_dir, self._inside(target_dir), dirs_exist_ok=True)

    async def download_file(self, source_path: str, target_path: Path | str) -> None:
        Path(target_path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(self._inside(source_path), target_path)

    async def download_dir(self, source_dir: str, target_dir: Path | str) -> None:
        shutil.copytree(self._inside(source_dir), target_dir, dirs_exist_ok=True)

    def _inside(self, path: str) -> Path:
        return self._root / path.lstrip("/")
