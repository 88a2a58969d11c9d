"""A running cluster as others see it: its health, and the way in."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from localcluster.errors import ClusterError
from localcluster.facts import S3, Facts
from localcluster.layout import Layout, Profile
from localcluster.processes import Process
from localcluster.state import Phase, State, describe_death, tail

#: Set by `shell` for what it runs: the root folder of the cluster whose namespaces the process is in.
INSIDE = "ASSAY_INSIDE_CLUSTER"
#: Nothing in there can be reached through a proxy.
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")


@dataclass(frozen=True)
class Cluster:
    """A cluster that was started; it may have ended or lost a component since: see `check`."""

    where: Layout
    facts: Facts

    @property
    def supervisor(self) -> Process:
        return Process(self.facts.supervisor_pid, self.facts.supervisor_started)

    def alive(self) -> bool:
        """Whether its first process lives, and with it the namespaces."""
        return inside(self.where) or self.supervisor.alive()

    def check(self) -> None:
        """Raises ClusterError that names what failed, with the end of its log, unless all components live."""
        state = State.read(self.where)
        if not self.alive():
            if state and state.failure:
                raise ClusterError(f"the cluster failed to start: {state.failure}")
            words = tail(self.where, "supervisor")
            log = self.where.logs / "supervisor.log"
            raise ClusterError(
                f"the cluster has ended. The end of {log}:\n{words}\n{_up(self.facts.profile)}"
            )
        if state is None or state.phase is Phase.STARTING:
            raise ClusterError("the cluster is still starting: `python -m localcluster up` waits for it")
        if dead := state.dead():
            deaths = "\n".join(
                describe_death(self.where, name, state.components[name].ended) for name in dead
            )
            raise ClusterError(f"{deaths}\n`python -m localcluster up --restart` starts the cluster anew.")

    def signal_supervisor(self, number: int) -> None:
        """Sends a signal to the first process, from outside or from inside the namespaces."""
        os.kill(1 if inside(self.where) else self.facts.supervisor_pid, number)

    def environment(self) -> dict[str, str]:
        """What a process inside is given on top of its own environment."""
        bare = os.environ.get("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        return {
            "KUBECONFIG": str(self.facts.kubeconfig),
            "PATH": f"{self.facts.bin}:{bare}",
            INSIDE: str(self.where.root),
            **(_store(self.facts.s3) if self.facts.s3 else {}),
        }

    def command(self, command: Sequence[str], environment: Mapping[str, str] | None = None) -> list[str]:
        """An argv that runs `command` inside the namespaces, in the current folder, and ends with its status.

        It needs the rights that started the cluster: root, or the same user for a rootless control plane.
        """
        variables = self.environment() | dict(environment or {})
        unset = [option for name in PROXIES if name in os.environ for option in ("--unset", name)]
        # env -C names the folder anew inside; nsenter's own --wd would leave the process in the outer mounts.
        entered = [
            "env",
            "-C",
            str(Path.cwd()),
            *unset,
            *(f"{key}={value}" for key, value in variables.items()),
        ]
        return [*self._nsenter(), *entered, *command]

    def _nsenter(self) -> list[str]:
        if inside(self.where):
            return []
        namespaces = ["--mount", "--net", "--pid"]
        if self.facts.user_namespace:
            namespaces += ["--user", "--preserve-credentials"]
        return ["nsenter", "--target", str(self.facts.supervisor_pid), *namespaces, "--"]


def _store(s3: S3) -> dict[str, str]:
    """The object store as `assay` and every other client of S3 finds it."""
    return {
        "ASSAY_S3_ENDPOINT": s3.endpoint,
        "ASSAY_S3_REGION": s3.region,
        "AWS_ENDPOINT_URL_S3": s3.endpoint,
        "AWS_REGION": s3.region,
        "AWS_ACCESS_KEY_ID": s3.access_key,
        "AWS_SECRET_ACCESS_KEY": s3.secret_key,
    }


def inside(where: Layout) -> bool:
    """Whether this process runs in the namespaces of that cluster already."""
    return os.environ.get(INSIDE) == str(where.root)


def find(where: Layout) -> Cluster | None:
    """The cluster that was last started there, whatever became of it."""
    facts = Facts.read(where)
    return Cluster(where, facts) if facts else None


def connect(profile: Profile | None = None) -> Cluster:
    """The running, healthy cluster of a profile; by default the one around this process, else the node.

    Raises ClusterError that says what is wrong otherwise.
    """
    if profile is None and INSIDE in os.environ:
        cluster = find(Layout(Path(os.environ[INSIDE])))
    else:
        cluster = find(Layout.of(profile or Profile.NODE))
    if cluster is None:
        raise ClusterError(f"no cluster is up. {_up(profile or Profile.NODE)}")
    cluster.check()
    return cluster


def _up(profile: Profile) -> str:
    options = "" if profile is Profile.NODE else f" --profile {profile}"
    return f"Start one with `{Path(sys.executable).name} -m localcluster up{options}`"
