"""What comes from the distribution: found by command, installed where it is missing and this is Debian."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from localcluster.errors import ClusterError
from localcluster.namespaces import SYSTEM_PATH

#: Purpose, then command and the package that has it. Any other machine that has the commands is fine.
PACKAGES = {
    "node": {
        "containerd": "containerd",
        "runc": "runc",
        "ip": "iproute2",
        "iptables": "iptables",
        "ipset": "ipset",
        "nft": "nftables",
        "openssl": "openssl",
        "nsenter": "util-linux",
        "mount": "mount",
    },
    "images": {"buildah": "buildah", "mmdebstrap": "mmdebstrap"},
    "tests": {
        "prometheus": "prometheus",
        "chromium-headless-shell": "chromium-headless-shell",
        "faketime": "faketime",
        "zsh": "zsh",
        "fish": "fish",
    },
}
#: Commands that do as well as one of the above.
ALTERNATIVES = {"chromium-headless-shell": ("chromium", "chromium-browser", "google-chrome")}
CNI_PACKAGE = "containernetworking-plugins"
CNI_FOLDERS = (Path("/usr/lib/cni"), Path("/opt/cni/bin"))
CNI_NEEDED = ("bridge", "host-local", "loopback", "portmap")

#: Debian starts the services of what it installs; a script with this status tells it not to.
NO_SERVICES = Path("/usr/sbin/policy-rc.d")


def cni_plugins() -> Path | None:
    """The folder with the network plugins, or None."""
    for folder in CNI_FOLDERS:
        if all((folder / name).exists() for name in CNI_NEEDED):
            return folder
    return None


def find(command: str, path: str | None = None) -> str | None:
    """Where a command is, or one that does as well; None where there is none on `path` (absent = PATH)."""
    names = (command, *ALTERNATIVES.get(command, ()))
    return next((found for name in names if (found := shutil.which(name, path=path))), None)


def missing(purposes: Sequence[str]) -> list[str]:
    """Packages whose commands are not on this machine."""
    path = f"{os.environ.get('PATH', '')}:{SYSTEM_PATH}"
    wanted = [pair for purpose in purposes for pair in PACKAGES[purpose].items()]
    absent = [package for command, package in wanted if find(command, path) is None]
    if "node" in purposes and cni_plugins() is None:
        absent.append(CNI_PACKAGE)
    return absent


def ensure(purposes: Sequence[str], console: Console) -> None:
    """Installs what is missing. Raises ClusterError where it cannot, naming the packages."""
    absent = missing(purposes)
    if not absent:
        return
    names = " ".join(absent)
    if not shutil.which("apt-get"):
        raise ClusterError(
            f"these Debian packages, or what they are called on this machine, are missing: {names}"
        )
    if os.geteuid() != 0:
        raise ClusterError(f"packages are missing and this is not root: sudo apt-get install {names}")
    console.print(f"Installing Debian packages: {names}")
    with _services_stay_off():
        if _apt("install", "--yes", "--no-install-recommends", *absent).returncode:
            # The lists may be old or absent, as in a new container.
            _apt("update")
            installed = _apt("install", "--yes", "--no-install-recommends", *absent)
            if installed.returncode:
                raise ClusterError(f"apt-get install {names} failed:\n{installed.stderr.strip()[-2000:]}")
    if still := missing(purposes):
        raise ClusterError(f"installed, but their commands are not on PATH: {' '.join(still)}")


def _apt(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    return subprocess.run(
        ["apt-get", *arguments], env=environment, capture_output=True, text=True, check=False
    )


@contextmanager
def _services_stay_off() -> Iterator[None]:
    """A containerd or Prometheus of the machine's own would only take memory and ports."""
    if NO_SERVICES.exists():
        yield
        return
    NO_SERVICES.write_text("#!/bin/sh\nexit 101\n")
    NO_SERVICES.chmod(0o755)
    try:
        yield
    finally:
        NO_SERVICES.unlink()
