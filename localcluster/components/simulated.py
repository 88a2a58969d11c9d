"""Nodes that exist in name only: KWOK answers for their kubelets (simulated.yaml says how)."""

from __future__ import annotations

from pathlib import Path

from localcluster.components.model import Component, Settings, http_ok
from localcluster.kubeapi import KubeApi

KWOK_PORT = 10247
STAGES = Path(__file__).with_name("simulated.yaml")

#: Label of a node, and of the nodeSelector that asks for it: what ends its pods, `told` or `clock`.
END = "simulated.assay.dev/end"
NODES = {"sim-told": "told", "sim-clock": "clock"}


def kwok(settings: Settings) -> Component:
    return Component(
        "kwok",
        [
            settings.binary("kwok"),
            "--kubeconfig", str(settings.layout.kubeconfig),
            "--config", str(STAGES),
            "--server-address", f"127.0.0.1:{KWOK_PORT}",
        ],
        http_ok(KWOK_PORT, "/healthz"),
        ("kube-apiserver",),
        # It reads configuration and keeps its own below the home folder.
        environment={"KWOK_WORKDIR": str(settings.root / "kwok")},
    )  # fmt: skip


def nodes(settings: Settings) -> Component:
    """The condition that every simulated node is there and Ready."""
    api = KubeApi(settings.layout.pki)

    def ready() -> bool:
        for name, end in NODES.items():
            api.apply(
                f"/api/v1/nodes/{name}",
                {
                    "apiVersion": "v1",
                    "kind": "Node",
                    "metadata": {"name": name, "labels": {END: end, "kubernetes.io/hostname": name}},
                },
            )
        return all(_is_ready(api, name) for name in NODES)

    return Component("nodes", ready=ready, after=("kwok", "kube-controller-manager"))


def _is_ready(api: KubeApi, name: str) -> bool:
    node = api.get(f"/api/v1/nodes/{name}")
    conditions = node.get("status", {}).get("conditions", [])
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions) and not node[
        "spec"
    ].get("taints")
