"""Processes of attempt pods as their node sees them: for the local cluster, whose node is this machine.

That a container runs says nothing about what it does yet; that a process is there does.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from demo.kube import Object
from tests.e2e.bench import SECONDS, Bench, RunHandle

CGROUPS = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Process:
    """A process on the node. What cannot be read any more is empty."""

    pid: int

    @property
    def command(self) -> list[str]:
        return self._read("cmdline").decode(errors="replace").rstrip("\0").split("\0")

    @property
    def is_runner(self) -> bool:
        return "assay.runner" in self.command

    def belongs_to(self, pod_uid: str) -> bool:
        text = self._read("cgroup").decode()
        return pod_uid in text or pod_uid.replace("-", "_") in text

    @property
    def memory_cgroup(self) -> Path:
        """The folder of the cgroup that bounds its memory, of either version."""
        for line in self._read("cgroup").decode().splitlines():
            _, controllers, path = line.split(":", 2)
            if "memory" in controllers.split(","):
                return CGROUPS / "memory" / path.lstrip("/")
        return CGROUPS / self._read("cgroup").decode().partition("0::/")[2].strip()

    def _read(self, name: str) -> bytes:
        try:
            return Path(f"/proc/{self.pid}/{name}").read_bytes()
        except OSError:
            return b""


def processes_of(pod: Object) -> list[Process]:
    """Every process of the pod that is there now."""
    uid = str(pod["metadata"]["uid"])
    every = (Process(int(path.name)) for path in Path("/proc").iterdir() if path.name.isdecimal())
    return [one for one in every if one.belongs_to(uid)]


def runners_of(pod: Object) -> list[Process]:
    """The processes of the pod's runner; fails where there is none."""
    found = [one for one in processes_of(pod) if one.is_runner]
    assert found, f"no process of the runner in pod {pod['metadata']['name']}"
    return found


def wait_process(bench: Bench, run: RunHandle, is_it: Callable[[Process], bool], what: str) -> Object:
    """The first pod of the run that has such a process."""
    found: list[Object] = []

    def there() -> bool:
        found[:] = [pod for pod in run.pods() if any(map(is_it, processes_of(pod)))]
        return bool(found)

    bench.until(there, f"{what} in a pod of {run.name}", SECONDS)
    return found[0]


def kill_runner(_: Bench, pod: Object) -> None:
    """SIGKILL to the runner's process of a pod, from the node."""
    for process in runners_of(pod):
        os.kill(process.pid, signal.SIGKILL)


_EATER = """
import os, sys, time
victim, group = sys.argv[1:]
for path, value in ((f"/proc/{victim}/oom_score_adj", 1000), (f"{group}/cgroup.procs", os.getpid())):
    with open(path, "w") as file:
        file.write(str(value))

def alive():
    try:
        return open(f"/proc/{victim}/stat").read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False

held = []
while alive():
    held.append(bytearray(b"x") * (4 << 20))
    time.sleep(0.005)
"""


def starve_runner(_: Bench, pod: Object) -> None:
    """Fill the memory of the runner's container until the kernel kills the runner for it.

    The runner is made the first to be killed. To spare the process that fills the memory instead would take a
    capability that not every machine gives its root.
    """
    runner = runners_of(pod)[0]
    group = runner.memory_cgroup
    done = subprocess.run(
        [sys.executable, "-c", _EATER, str(runner.pid), str(group)],
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stderr
