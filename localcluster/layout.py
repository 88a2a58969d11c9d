"""Where things lie on the machine, and which addresses a cluster uses inside its namespaces."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
TOOLS = CHECKOUT / "localcluster" / "tools"

# 198.18.0.0/15 is set aside for benchmarks of network devices (RFC 2544): it is nobody's real network.
NODE_NAME = "node0"
NODE_IP = "198.18.255.1"
POD_CIDR = "198.18.0.0/17"
SERVICE_CIDR = "198.19.0.0/16"
API_SERVICE_IP = "198.19.0.1"
DNS_SERVICE_IP = "198.19.0.10"
CLUSTER_DOMAIN = "cluster.local"

API_PORT = 6443
ETCD_PORT = 2379
REGISTRY_ADDRESS = "127.0.0.1:5000"
S3_PORT = 9000
S3_NAMESPACE = "assay-s3"
S3_SERVICE = "s3"
S3_BUCKET = "evidence"
S3_REGION = "us-east-1"
PAUSE_IMAGE = "assay.test/pause:1"


class Profile(StrEnum):
    """What a cluster consists of."""

    #: Everything that runs pods: the default.
    NODE = "node"
    #: etcd, API server and controller manager; for tests of resource definitions and RBAC. No pod ever runs.
    CONTROL_PLANE = "control-plane"
    #: A control plane with scheduler and nodes that KWOK simulates; for tests and benchmarks of scale. Pods
    #: start and end as components/simulated.yaml says, and no process ever runs in them.
    SIMULATED = "simulated"


def cache() -> Path:
    """The folder for built binaries: outside every checkout, so that a second clone builds nothing."""
    if named := os.environ.get("ASSAY_CACHE"):
        return Path(named).absolute()
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base).absolute() / "assay"


def clusters() -> Path:
    """The folder that holds one folder a profile: ASSAY_CLUSTER_DIR, else .cluster in the checkout."""
    return Path(os.environ.get("ASSAY_CLUSTER_DIR") or CHECKOUT / ".cluster").absolute()


@dataclass(frozen=True)
class Layout:
    """The files of one cluster. `root` may be arbitrarily long: no Unix socket lies under it."""

    root: Path

    @classmethod
    def of(cls, profile: Profile) -> Layout:
        return cls(Path(os.path.realpath(clusters() / profile)))

    @property
    def id(self) -> str:
        """Eight hex digits that tell this cluster from every other on the machine."""
        return hashlib.sha256(os.fsencode(self.root)).hexdigest()[:8]

    @property
    def cgroup(self) -> str:
        """The cgroup that holds all processes of the cluster, as a path below each hierarchy's root."""
        return f"/assay-{self.id}"

    @property
    def facts(self) -> Path:
        return self.root / "cluster.json"

    @property
    def settings(self) -> Path:
        return self.root / "settings.json"

    @property
    def state(self) -> Path:
        return self.root / "state.json"

    @property
    def restart(self) -> Path:
        """Names the component that the supervisor is asked to restart."""
        return self.root / "restart"

    @property
    def lock(self) -> Path:
        """Beside the root, not in it: it must survive the root's removal while it is held."""
        return self.root.with_name(self.root.name + ".lock")

    @property
    def kubeconfig(self) -> Path:
        return self.root / "kubeconfig"

    @property
    def bin(self) -> Path:
        return self.root / "bin"

    @property
    def logs(self) -> Path:
        return self.root / "log"

    @property
    def pki(self) -> Path:
        return self.root / "pki"

    @property
    def conf(self) -> Path:
        return self.root / "conf"

    @property
    def volume_plugins(self) -> Path:
        return self.root / "volume-plugins"

    @property
    def containerd(self) -> Path:
        return self.root / "containerd"

    @property
    def registry(self) -> Path:
        return self.root / "registry"

    @property
    def kept(self) -> tuple[Path, ...]:
        """What outlives `down`: pulling and unpacking the images again would take half a minute."""
        return (self.containerd, self.registry)
