"""The namespaces of a cluster: what its first process sets up before it starts anything."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from localcluster import layout
from localcluster.components.model import Settings
from localcluster.errors import ClusterError
from localcluster.layout import Profile
from localcluster.mountpoints import MOUNTS

#: Where mount, ip, iptables and runc are; a user's PATH often lacks the sbin folders.
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def leave_the_machine(user_namespace: bool) -> None:
    """Puts this process, and as PID 1 its next child, into namespaces of their own.

    Raises ClusterError where the kernel refuses.
    """
    uid, gid = os.geteuid(), os.getegid()
    kinds = os.CLONE_NEWNET | os.CLONE_NEWNS | os.CLONE_NEWPID
    try:
        os.unshare(kinds | os.CLONE_NEWUSER if user_namespace else kinds)
    except OSError as error:
        hint = "run it as root" if user_namespace else "a container needs --privileged for this"
        raise ClusterError(f"the kernel refuses new namespaces ({error}): {hint}") from error
    if user_namespace:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
        Path("/proc/self/gid_map").write_text(f"0 {gid} 1")


def furnish(settings: Settings) -> None:
    """Called by PID 1: mounts and network. Raises ClusterError naming the command that failed."""
    _run("mount", "--make-rprivate", "/")
    _run("mount", "-t", "proc", "proc", "/proc")
    _run("ip", "link", "set", "lo", "up")
    # No `dummy` device: not every kernel has one.
    _run("ip", "address", "add", f"{layout.NODE_IP}/32", "dev", "lo")
    if settings.profile is Profile.NODE:
        _furnish_node(settings)


def _furnish_node(settings: Settings) -> None:
    # Volumes that the kubelet mounts are to show up in containers that asked for propagation.
    _run("mount", "--make-rshared", "/")
    for target, below in MOUNTS.items():
        if below:
            (settings.root / below).mkdir(parents=True, exist_ok=True)
            _run("mount", "--bind", str(settings.root / below), target)
        else:
            _run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", target)
    # Names of Services resolve on the node, too; the machine's resolvers are out of reach anyway.
    resolver = settings.layout.conf / "resolv.conf"
    resolver.write_text(f"nameserver {layout.NODE_IP}\n")
    if Path("/etc/resolv.conf").exists():
        _run("mount", "--bind", str(resolver), "/etc/resolv.conf")
    # Without a route the kernel refuses a Service's address before kube-proxy's rules could rewrite it.
    _run("ip", "route", "add", layout.SERVICE_CIDR, "dev", "lo", "src", layout.NODE_IP)
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    bridged = Path("/proc/sys/net/bridge/bridge-nf-call-iptables")
    if not bridged.exists():
        raise ClusterError(
            "the kernel has no br_netfilter: NetworkPolicy between pods of one node would do nothing"
        )
    bridged.write_text("1")


def load_kernel_modules() -> None:
    """Loads, on the machine, what a node needs. One that is built in or absent is no error here."""
    modules = (
        "overlay",
        "br_netfilter",
        "nf_tables",
        "ip_set",
        "xt_set",
        "xt_comment",
        "xt_mark",
        "nf_conntrack",
    )
    if modprobe := shutil.which("modprobe", path=SYSTEM_PATH):
        for module in modules:
            subprocess.run([modprobe, "-q", module], capture_output=True, check=False)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ClusterError(f"`{' '.join(command)}` failed: {done.stderr.strip()}")
