"""Containers without a container runtime: real sandboxd as PID 1 of namespaces of its own."""

import asyncio
import contextlib
import os
import shutil
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import IO

from tests.runner.network import PodNetwork

ROOT = Path(__file__).parents[2]

_START = """
set -e
root=$1; sock=$2; bin=$3
[ -z "$4" ] || echo "$4" > /proc/sys/kernel/hostname
mount -t tmpfs -o mode=755 container "$root"
cd "$root"
mkdir -p usr etc proc dev tmp app root assay/sock assay/bin var/tmp
chmod 1777 tmp var/tmp
mount --bind /usr usr
mount -o remount,bind,ro usr
for name in bin sbin lib lib64; do ln -s usr/$name $name; done
cp -a /etc/passwd /etc/group /etc/ld.so.cache /etc/alternatives etc/ 2>/dev/null || true
mount -t proc proc proc
mount --rbind /dev dev
mount --bind "$sock" assay/sock
mount --bind "$bin" assay/bin
mount -o remount,bind,ro assay/bin
exec chroot . /usr/bin/env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root \
  sh -c 'cd /app && exec /assay/bin/sandboxd serve --socket /assay/sock/s --runner-uid 0'
"""


class Container:
    """One sibling: a socket folder that the runner shares, and a process that is PID 1 inside."""

    def __init__(self, folder: Path, binary: Path, network: PodNetwork, hostname: str = "") -> None:
        self.folder = folder
        self._hostname = hostname
        self._network = network
        self.socket = folder / "sock" / "s"
        for name in ("root", "sock", "bin"):
            (folder / name).mkdir(parents=True)
        shutil.copy2(binary, folder / "bin" / "sandboxd")
        self.process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        paths = [str(self.folder / name) for name in ("root", "sock", "bin")]
        with self.output.open("wb") as output:
            self.process = await self._spawn(paths, output)

    async def _spawn(self, paths: list[str], output: IO[bytes]) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *self._network.inside("unshare", "--mount", "--pid", "--fork", "--kill-child", "--uts", "--ipc"),
            *("sh", "-c", _START, "container", *paths, self._hostname),
            stdout=output,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )

    async def ended(self) -> int:
        """Its exit code, once it has ended."""
        assert self.process is not None
        return await self.process.wait()

    def kill(self) -> None:
        """Kill the whole container, as a lost node would."""
        if self.process is not None and self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)

    @property
    def output(self) -> Path:
        """What sandboxd printed."""
        return self.folder / "output"

    def has(self, path: str) -> bool:
        """Whether this path exists inside."""
        place = self._outside(path)
        return place is not None and place.exists()

    def touch(self, path: str) -> None:
        """Make an empty file inside; the container runs."""
        place = self._outside(path)
        assert place is not None
        place.touch()

    def _outside(self, path: str) -> Path | None:
        """Where a path of the running container is seen from outside."""
        assert self.process is not None
        pid = self.process.pid
        try:
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        except OSError:
            return None
        return Path(f"/proc/{children[0]}/root{path}") if children else None


@contextlib.asynccontextmanager
async def running(container: Container) -> AsyncIterator[Container]:
    """The container, started; killed at the end of the block."""
    await container.start()
    try:
        yield container
    finally:
        container.kill()
        await container.ended()
