"""Folders of the machine that every cluster mounts something of its own over, inside its mount namespace.

With them all parts use their default paths. Where the machine has no such folder it is made, and removed with
the last cluster: removing a mount point would take the mount away from a cluster that still runs.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path

from localcluster.processes import Process

#: Each with the folder below the cluster's root that is mounted there; an empty one stands for memory.
MOUNTS = {
    "/run/containerd": "",
    "/var/lib/cni": "",
    "/var/lib/containerd": "containerd",
    "/var/lib/kubelet": "kubelet",
    "/var/log/pods": "log/pods",
    "/var/log/containers": "log/containers",
}

REGISTER = Path("/run/assay")
MADE = REGISTER / "made.json"


def claim(cluster: str, holder: Process) -> None:
    """Makes sure that the mount points exist for as long as `holder` lives."""
    with _locked():
        REGISTER.mkdir(exist_ok=True)
        (REGISTER / f"{cluster}.claim").write_text(json.dumps(asdict(holder)))
        missing = [path for path in MOUNTS if not Path(path).is_dir()]
        for path in missing:
            Path(path).mkdir(parents=True)
        MADE.write_text(json.dumps(_made() + missing))


def release(cluster: str) -> None:
    """Gives the mount points up; the last to do so removes those that the machine did not have."""
    with _locked():
        if not REGISTER.is_dir():
            return
        (REGISTER / f"{cluster}.claim").unlink(missing_ok=True)
        for other in REGISTER.glob("*.claim"):
            if Process(**json.loads(other.read_text())).alive():
                return
            other.unlink()
        for path in _made():
            # One that holds files by now belongs to somebody else.
            with suppress(OSError):
                Path(path).rmdir()
        MADE.unlink(missing_ok=True)
        REGISTER.rmdir()


def _made() -> list[str]:
    return list(json.loads(MADE.read_text())) if MADE.exists() else []


@contextmanager
def _locked() -> Iterator[None]:
    """Locks the folder above the register, so that no lock file stays behind."""
    folder = os.open(REGISTER.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)
