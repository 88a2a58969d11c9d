"""cluster.json: what other parts may know about a running cluster."""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from localcluster.errors import ClusterError
from localcluster.layout import Layout, Profile
from localcluster.processes import Process

SCHEMA_VERSION = 1


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Registry(_Record):
    """The image registry. Names in it have no host: `docker.io/library/debian:12` is `library/debian:12`."""

    #: Host and port, plain HTTP, reachable inside the namespaces alone.
    address: str


class S3(_Record):
    """The object store, with the only key pair it knows."""

    #: For clients inside the namespaces that are no pods.
    endpoint: str
    #: For pods: a Service.
    service_endpoint: str
    region: str
    bucket: str
    access_key: str
    secret_key: str


class Network(_Record):
    node_ip: str
    pod_cidr: str
    service_cidr: str
    cluster_domain: str


class Facts(_Record):
    """The file is readable by its owner alone, as it holds the S3 secret."""

    schema_version: int = SCHEMA_VERSION
    profile: Profile
    kubernetes_version: str
    kubeconfig: Path
    #: Directory with kubectl, and with helm and crane where there is a node.
    bin: Path
    logs: Path
    #: First process of the namespaces, as the host numbers it, and its start time in clock ticks since boot:
    #: a number alone may have been given to another process since.
    supervisor_pid: int
    supervisor_started: int
    #: Whether the namespaces include one for users (a control plane that was started without root).
    user_namespace: bool
    #: Tool name to the folder of binaries that runs: a different folder now means that the pins have changed.
    binaries: dict[str, Path]
    #: Components that were left out on purpose with `up --without`.
    without: tuple[str, ...] = ()
    #: None in the control-plane profile.
    network: Network | None = None
    registry: Registry | None = None
    s3: S3 | None = None

    @classmethod
    def read(cls, where: Layout) -> Facts | None:
        """The facts of a cluster, or None where none was started.

        Raises ClusterError when the file was written by another version of this package.
        """
        try:
            text = where.facts.read_text()
        except FileNotFoundError:
            return None
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            raise ClusterError(
                f"{where.facts} is not what this version writes: `down`, then `up` ({error})"
            ) from error

    def write(self, where: Layout) -> None:
        """Replaces the file in one step."""
        replace(where.facts, self.model_dump_json(indent=2) + "\n")


def recorded_supervisor(where: Layout) -> Process | None:
    """The first process of the cluster there, also from a file that another version of this package wrote."""
    try:
        record = json.loads(where.facts.read_text())
        return Process(int(record["supervisor_pid"]), int(record["supervisor_started"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def replace(path: Path, text: str) -> None:
    """Writes a file for its owner's eyes in one step: a reader sees the old content or the new, no part."""
    scratch = path.with_name(f".{path.name}.new")
    scratch.touch(mode=0o600)
    scratch.write_text(text)
    scratch.replace(path)
