"""A cgroup of the cluster's own in every hierarchy of the machine, cgroup v1 and v2 alike.

Without it two clusters would share /kubepods, and each kubelet removes pod cgroups that it does not know.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

from localcluster.errors import ClusterError

ROOT = Path("/sys/fs/cgroup")
#: Where the components themselves live, beside the kubelet's `kubepods`: a cluster must not end with, nor be
#: charged to, the login session that happened to start it.
SYSTEM = "system"
#: How long the kernel may take to empty the groups of killed processes.
REMOVE_WITHIN_S = 10.0


def is_v2() -> bool:
    """Whether the machine has the unified hierarchy alone."""
    return (ROOT / "cgroup.controllers").exists()


def hierarchies() -> list[Path]:
    """The mount point of each hierarchy."""
    if is_v2():
        return [ROOT]
    # Links such as cpu -> cpu,cpuacct name a hierarchy a second time.
    mounted = {Path(os.path.realpath(path)) for path in ROOT.iterdir()} if ROOT.is_dir() else set()
    return sorted(path for path in mounted if (path / "cgroup.procs").exists())


def create(group: str) -> None:
    """Makes the group and its `system` child in every hierarchy.

    Raises ClusterError where the machine does not let us.
    """
    try:
        for hierarchy in hierarchies():
            top = hierarchy / group.lstrip("/")
            for path in (top, top / SYSTEM):
                _delegate(path.parent)
                path.mkdir(exist_ok=True)
                _copy_cpuset(path)
            _delegate(top)
    except OSError as error:
        raise ClusterError(
            f"cannot make the cgroup {group}: {error}. Is /sys/fs/cgroup mounted writable?"
        ) from error


def join(group: str) -> None:
    """Moves the calling process into the group's `system` child."""
    for hierarchy in hierarchies():
        (hierarchy / group.lstrip("/") / SYSTEM / "cgroup.procs").write_text(str(os.getpid()))


def kill(group: str) -> None:
    """Kills every process in the group, whatever namespaces it is in. Those that fork meanwhile stay."""
    for top in remaining(group):
        for members in top.rglob("cgroup.procs"):
            for pid in members.read_text().split():
                with suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)


def remaining(group: str) -> list[Path]:
    """The cgroups of this name that exist."""
    tops = [hierarchy / group.lstrip("/") for hierarchy in hierarchies()]
    return [top for top in tops if top.is_dir()]


def remove(group: str) -> None:
    """Removes the group from every hierarchy once its processes are gone.

    Raises ClusterError when some processes stay.
    """
    deadline = time.monotonic() + REMOVE_WITHIN_S
    while left := [top for top in remaining(group) if not _remove_tree(top)]:
        if time.monotonic() > deadline:
            raise ClusterError(f"processes are still in {', '.join(map(str, left))}")
        time.sleep(0.05)


def _remove_tree(top: Path) -> bool:
    for folder, _, _ in os.walk(top, topdown=False):
        try:
            Path(folder).rmdir()
        except FileNotFoundError:
            continue
        except OSError:
            return False
    return True


def _copy_cpuset(path: Path) -> None:
    """In a v1 cpuset hierarchy a new group has no CPUs, and no process can enter it."""
    for name in ("cpuset.cpus", "cpuset.mems"):
        own = path / name
        if not is_v2() and own.exists() and not own.read_text().strip():
            own.write_text((path.parent / name).read_text())


def _delegate(path: Path) -> None:
    """In v2 a controller reaches children only where the parent says so."""
    control = path / "cgroup.subtree_control"
    if not is_v2():
        return
    for controller in set((path / "cgroup.controllers").read_text().split()) - set(
        control.read_text().split()
    ):
        try:
            control.write_text(f"+{controller}")
        except OSError as error:
            if controller in {"cpu", "memory", "pids"}:
                raise ClusterError(
                    f"cannot hand cgroup controller {controller} to children of {path}: {error}. "
                    "In a container, move its processes out of the root cgroup first (as kind does)."
                ) from error
