"""The cluster that the demonstration runs on: the local one, or the kubeconfig's current context."""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from demo.errors import DemoError

_REGISTRY_NAME = "assay.test"


@dataclass(frozen=True)
class Storage:
    """An S3 bucket and its keys; `endpoint` is for pods, `endpoint_here` for this process."""

    endpoint: str
    endpoint_here: str
    region: str
    bucket: str
    access_key: str
    secret_key: str

    def environment(self) -> dict[str, str]:
        """The variables by which `assay` and the AWS tools reach the bucket from here."""
        return {
            "ASSAY_S3_ENDPOINT": self.endpoint_here,
            "ASSAY_S3_REGION": self.region,
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
        }


@dataclass(frozen=True)
class Target:
    """Where to install. `registry` is None where nodes resolve `assay.test/…` by themselves."""

    storage: Storage
    kubeconfig: str | None = None
    registry: str | None = None
    dns_cidrs: tuple[str, ...] = ()
    cluster_cidrs: tuple[str, ...] = ()

    def image(self, pinned: str) -> str:
        """An image of this project under the name that this cluster's nodes can pull."""
        prefix = f"{_REGISTRY_NAME}/"
        if self.registry is None or not pinned.startswith(prefix):
            return pinned
        return f"{self.registry.rstrip('/')}/{pinned.removeprefix(prefix)}"

    def image_rewrites(self) -> list[dict[str, str]]:
        """`spec.placement.imageRewrites`, so that task images are pulled from where they were pushed to."""
        if self.registry is None:
            return []
        return [{"from": f"{_REGISTRY_NAME}/", "to": f"{self.registry.rstrip('/')}/"}]


def choose(environ: Mapping[str, str] = os.environ) -> Target:
    """The target that `CLUSTER` names: `local` (default) or `current`. Raises DemoError."""
    chosen = environ.get("CLUSTER") or "local"
    if chosen == "local":
        return _local()
    if chosen == "current":
        return _current(environ)
    raise DemoError(f"CLUSTER is {chosen!r}", "set it to local or current")


def _local() -> Target:
    from localcluster import ClusterError, connect

    try:
        facts = connect().facts
    except ClusterError as error:
        raise DemoError(f"the local cluster is not usable: {error}", "make cluster-up") from None
    if facts.s3 is None or facts.network is None:
        raise DemoError("the local cluster was started without a node", "make cluster-down cluster-up")
    storage = Storage(
        endpoint=facts.s3.service_endpoint,
        endpoint_here=facts.s3.endpoint,
        region=facts.s3.region,
        bucket=facts.s3.bucket,
        access_key=facts.s3.access_key,
        secret_key=facts.s3.secret_key,
    )
    return Target(
        storage=storage,
        kubeconfig=str(facts.kubeconfig),
        # DNS listens on the node's own address; it is no pod that a selector could name.
        dns_cidrs=(f"{facts.network.node_ip}/32",),
        cluster_cidrs=(facts.network.pod_cidr, facts.network.service_cidr, f"{facts.network.node_ip}/32"),
    )


_REQUIRED = {
    "REGISTRY": "a registry that nodes pull from, where `make images REGISTRY=…` has pushed",
    "ASSAY_S3_BUCKET": "an S3 bucket that exists",
    "AWS_ACCESS_KEY_ID": "a key that may read and write the bucket",
    "AWS_SECRET_ACCESS_KEY": "the secret of that key",
}


def _current(environ: Mapping[str, str]) -> Target:
    missing = [f"{name} ({meaning})" for name, meaning in _REQUIRED.items() if not environ.get(name)]
    if missing:
        raise DemoError(
            f"CLUSTER=current needs {'; '.join(missing)}", "docs/install.md says what a cluster must have"
        )
    endpoint = environ.get("ASSAY_S3_ENDPOINT", "")
    storage = Storage(
        endpoint=endpoint,
        endpoint_here=environ.get("ASSAY_S3_ENDPOINT_HERE") or endpoint,
        region=environ.get("ASSAY_S3_REGION") or "us-east-1",
        bucket=environ["ASSAY_S3_BUCKET"],
        access_key=environ["AWS_ACCESS_KEY_ID"],
        secret_key=environ["AWS_SECRET_ACCESS_KEY"],
    )
    return Target(storage=storage, kubeconfig=environ.get("KUBECONFIG"), registry=environ["REGISTRY"])
