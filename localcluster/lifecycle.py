"""Starting and ending a cluster, seen from the machine."""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from localcluster import build, cgroups, debian, layout, mountpoints, namespaces, pki, toolset
from localcluster.cluster import Cluster, find, inside
from localcluster.components import REMOVABLE, Settings
from localcluster.errors import ClusterError
from localcluster.facts import S3, Facts, Network, Registry, recorded_supervisor
from localcluster.layout import Layout, Profile
from localcluster.processes import Process
from localcluster.state import Phase, State, Status, tail

SETS = {
    Profile.NODE: "demo",
    Profile.CONTROL_PLANE: "control-plane",
    Profile.SIMULATED: "simulated",
}
#: The kernel ends a namespace's processes within a moment; unmounting may take it longer.
KILL_WITHIN_S = 20.0
RESTART_WITHIN_S = 120.0


def up(profile: Profile, without: Sequence[str], restart: bool, console: Console) -> Cluster:
    """Starts a cluster unless it is up already. Raises ClusterError naming what failed."""
    if unknown := sorted(set(without) - set(REMOVABLE)):
        raise ClusterError(f"--without {unknown[0]}: only {', '.join(REMOVABLE)} can be left out")
    where = Layout.of(profile)
    with _locked(where):
        if not restart and (running := _running(where, tuple(sorted(without)), console)):
            return running
        _require_outside(where)
        _require_rights(profile)
        if profile is Profile.NODE:
            debian.ensure(["node"], console)
        binaries = build.ensure(toolset.select(SETS[profile]), console)
        _remove(where, purge=False)
        settings = _settings(where, profile, binaries, without)
        try:
            return _start(settings, console)
        except BaseException:
            _end(where)
            raise


def down(profile: Profile, purge: bool) -> bool:
    """Ends a cluster and removes what it left. Returns whether there was anything to remove.

    Raises ClusterError if something stays.
    """
    where = Layout.of(profile)
    _require_outside(where)
    if not where.root.exists():
        return False
    with _locked(where):
        found = any(purge or path not in where.kept for path in where.root.iterdir())
        _remove(where, purge)
        if not where.root.exists():
            where.lock.unlink(missing_ok=True)
    return found


def restart(cluster: Cluster, component: str) -> None:
    """Kills a component and starts it anew. Returns when it is ready.

    Raises ClusterError if it is no process of this cluster, or does not come back.
    """
    state = State.read(cluster.where)
    running = sorted(name for name, one in (state.components if state else {}).items() if one.pid)
    if state is None or component not in running:
        raise ClusterError(f"{component} is no process of this cluster: name one of {', '.join(running)}")
    before = state.components[component].pid
    cluster.where.restart.write_text(component)
    cluster.signal_supervisor(signal.SIGUSR1)
    end = time.monotonic() + RESTART_WITHIN_S
    while time.monotonic() < end:
        state = State.read(cluster.where)
        now = state.components[component] if state else None
        if now and now.pid != before and now.status is Status.READY:
            return
        if now and now.status is Status.DEAD and now.pid != before:
            break
        time.sleep(0.05)
    raise ClusterError(f"{component} does not come back:\n{tail(cluster.where, component)}")


def _require_outside(where: Layout) -> None:
    if inside(where):
        raise ClusterError("this is a shell inside the cluster: leave it first")


def _running(where: Layout, without: tuple[str, ...], console: Console) -> Cluster | None:
    """The cluster if it lives, once it is ready. Raises ClusterError if it is not what was asked for."""
    cluster = find(where)
    if cluster is None or not cluster.alive():
        return None
    if (state := State.read(where)) is None or state.phase is not Phase.UP:
        _follow(cluster, console)
    cluster.check()
    again = "`up --restart` replaces it"
    if cluster.facts.without != without:
        raise ClusterError(
            f"the cluster is up, but without {', '.join(cluster.facts.without) or 'nothing'}: {again}"
        )
    changed = [
        name for name, folder in cluster.facts.binaries.items() if toolset.TOOLS[name].directory() != folder
    ]
    if changed:
        raise ClusterError(
            f"the cluster is up, but the pins of {', '.join(changed)} have changed since: {again}"
        )
    return cluster


def _require_rights(profile: Profile) -> None:
    if sys.platform != "linux":
        raise ClusterError("a local cluster needs Linux: set CLUSTER=current to use an existing one")
    if profile is Profile.NODE and os.geteuid() != 0:
        raise ClusterError(
            "a node needs root (cgroups, mounts, nftables): use sudo, or `--profile control-plane`"
        )


def _settings(where: Layout, profile: Profile, binaries: dict[str, Path], without: Sequence[str]) -> Settings:
    node = profile is Profile.NODE
    return Settings(
        profile=profile,
        root=where.root,
        binaries=binaries,
        cni_plugins=debian.cni_plugins() if node else None,
        without=tuple(sorted(without)),
        s3_access_key=secrets.token_hex(10) if node else "",
        s3_secret_key=secrets.token_hex(20) if node else "",
        privileged=os.geteuid() == 0,
    )


def _start(settings: Settings, console: Console) -> Cluster:
    where = settings.layout
    for folder in (where.root, where.conf, where.logs, where.bin):
        folder.mkdir(parents=True, exist_ok=True)
    where.root.chmod(0o700)
    if settings.profile is Profile.NODE:
        _require_real_filesystem(where)
    _link_clients(settings)
    pki.issue_all(where)
    where.settings.touch(mode=0o600)
    where.settings.write_text(settings.model_dump_json(indent=2))
    if settings.privileged:
        cgroups.create(where.cgroup)
    if settings.profile is Profile.NODE:
        namespaces.load_kernel_modules()
        mountpoints.claim(where.id, Process.of(os.getpid()))
    first = _launch(settings)
    if settings.profile is Profile.NODE:
        mountpoints.claim(where.id, first)
    facts = _facts(settings, first)
    facts.write(where)
    cluster = Cluster(where, facts)
    _follow(cluster, console)
    return cluster


def _require_real_filesystem(where: Layout) -> None:
    """containerd's overlay cannot lie on another: it would fail with a message about a missing plugin."""
    kind = subprocess.run(["stat", "-f", "-c", "%T", where.root], capture_output=True, text=True, check=False)
    if kind.stdout.strip() == "overlayfs":
        raise ClusterError(
            f"{where.root} is on an overlay file system, as in a container without a volume: "
            "set ASSAY_CLUSTER_DIR to a folder on a volume"
        )


def _link_clients(settings: Settings) -> None:
    """One folder for PATH, with what people call by hand and nothing else."""
    clients = {"kubectl": "kubernetes", "helm": "helm", "crane": "crane"}
    for name, tool in clients.items():
        if tool in settings.binaries:
            (settings.layout.bin / name).symlink_to(settings.binary(tool, name))


def _launch(settings: Settings) -> Process:
    """Starts PID 1, detached from this process and its terminal."""
    log = settings.layout.logs / "supervisor.log"
    with log.open("wb") as stderr:
        launched = subprocess.run(
            [sys.executable, "-m", "localcluster.supervisor", str(settings.layout.settings)],
            cwd="/",
            env=os.environ | {"PYTHONPATH": str(layout.CHECKOUT)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            start_new_session=True,
            check=False,
        )
    if launched.returncode:
        raise ClusterError(f"the cluster's first process did not start: {log.read_text().strip()}")
    try:
        return Process.of(int(launched.stdout))
    except ProcessLookupError:
        state = State.read(settings.layout)
        reason = state.failure if state else log.read_text().strip()
        raise ClusterError(f"the cluster failed to start: {reason}") from None


def _facts(settings: Settings, first: Process) -> Facts:
    where = settings.layout
    s3_host = f"{layout.S3_SERVICE}.{layout.S3_NAMESPACE}.svc.{layout.CLUSTER_DOMAIN}"
    node = settings.profile is Profile.NODE
    return Facts(
        profile=settings.profile,
        kubernetes_version=toolset.kubernetes_version(),
        kubeconfig=where.kubeconfig,
        bin=where.bin,
        logs=where.logs,
        supervisor_pid=first.pid,
        supervisor_started=first.started,
        user_namespace=not settings.privileged,
        binaries=settings.binaries,
        without=settings.without,
        network=Network(
            node_ip=layout.NODE_IP,
            pod_cidr=layout.POD_CIDR,
            service_cidr=layout.SERVICE_CIDR,
            cluster_domain=layout.CLUSTER_DOMAIN,
        )
        if node
        else None,
        registry=Registry(address=layout.REGISTRY_ADDRESS) if node else None,
        s3=S3(
            endpoint=f"http://{layout.NODE_IP}:{layout.S3_PORT}",
            service_endpoint=f"http://{s3_host}:{layout.S3_PORT}",
            region=layout.S3_REGION,
            bucket=layout.S3_BUCKET,
            access_key=settings.s3_access_key,
            secret_key=settings.s3_secret_key,
        )
        if node and "versitygw" not in settings.without
        else None,
    )


def _follow(cluster: Cluster, console: Console) -> None:
    """Shows each component as it becomes ready, until the start has succeeded or failed."""
    shown: set[str] = set()
    while True:
        # Looked at in this order, so that the last words of a supervisor that just ended are read.
        alive = cluster.alive()
        state = State.read(cluster.where) or State(components={})
        for name, component in state.components.items():
            if component.ready_after_s is not None and name not in shown:
                shown.add(name)
                console.print(f"  {component.ready_after_s:5.1f} s  {name}", highlight=False)
        if alive and state.phase is Phase.UP:
            return
        if not alive:
            cluster.check()
        time.sleep(0.05)


@contextmanager
def _locked(where: Layout) -> Iterator[None]:
    where.lock.parent.mkdir(parents=True, exist_ok=True)
    while True:
        with where.lock.open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            # `down` removes the file while others wait for it: what they then hold locks nothing.
            if not where.lock.exists() or not os.path.samestat(where.lock.stat(), os.fstat(lock.fileno())):
                continue
            yield
            return


def _end(where: Layout) -> None:
    """Ends all processes and removes what lies outside the cluster's folder."""
    first = recorded_supervisor(where)
    if first and not first.kill(KILL_WITHIN_S):
        raise ClusterError(f"process {first.pid}, the first of the cluster, does not end after SIGKILL")
    if os.geteuid() == 0:
        # There is no record if `up` itself was killed at the wrong moment.
        cgroups.kill(where.cgroup)
        cgroups.remove(where.cgroup)
        mountpoints.release(where.id)


def _remove(where: Layout, purge: bool) -> None:
    _end(where)
    if not where.root.is_dir():
        return
    for path in where.root.iterdir():
        if path in where.kept and not purge:
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    if not any(where.root.iterdir()):
        where.root.rmdir()
