"""A minimal Harbor environment: commands in a chroot of the host's own programs, in namespaces of their own.

Made for jobs whose result folders the tests import. Harbor itself is the real one.
"""

import asyncio
import os
import shutil
import signal
import tempfile
from pathlib import Path
from typing import Any

from harbor.environments.base import BaseEnvironment, ExecResult
from harbor.environments.capabilities import EnvironmentCapabilities

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
        """Carry out the Dockerfile's COPY and RUN lines; programs of its base are the host's."""
        lines = (context / "Dockerfile").read_text().replace("\\\n", "").splitlines()
        for line in lines:
            word, _, rest = line.partition(" ")
            if word == "COPY":
                source, target = rest.split()
                self._inside(target).parent.mkdir(parents=True, exist_ok=True)
                if (context / source).is_dir():
                    shutil.copytree(context / source, self._inside(target), dirs_exist_ok=True)
                else:
                    shutil.copy2(context / source, self._inside(target))
            elif word == "RUN" and not rest.startswith("apt-get"):
                done = await self.exec(rest, cwd="/app")
                assert done.return_code == 0, done

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
        process = await asyncio.create_subprocess_exec(
            *("unshare", *flags, "sh", "-c", _ENTER, "enter"),
            *(str(self._root), cwd or self.task_env_config.workdir or "/app", command),
            env={
                "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin",
                "HOME": "/root",
                **(self._merge_env(env) or {}),
            },
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(timeout_sec):
                out, err = await process.communicate()
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
            raise
        code = process.returncode if process.returncode is not None else -1
        return ExecResult(
            stdout=out.decode(errors="replace"), stderr=err.decode(errors="replace"), return_code=code
        )

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
