"""What a new cluster is given: Services for the processes that serve pods from the node itself."""

from __future__ import annotations

from typing import Any

from localcluster import layout
from localcluster.kubeapi import KubeApi

Manifest = dict[str, Any]


def apply_services(api: KubeApi) -> None:
    """Makes the Services kube-system/kube-dns and assay-s3/s3. Raises ApiError."""
    labels = {"kubernetes.io/metadata.name": layout.S3_NAMESPACE}
    api.apply(
        f"/api/v1/namespaces/{layout.S3_NAMESPACE}",
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": layout.S3_NAMESPACE, "labels": labels},
        },
    )
    dns = [{"name": "dns", "port": 53, "protocol": "UDP"}, {"name": "dns-tcp", "port": 53, "protocol": "TCP"}]
    _apply_service(api, "kube-system", "kube-dns", dns, layout.DNS_SERVICE_IP)
    s3 = [{"name": "http", "port": layout.S3_PORT, "protocol": "TCP"}]
    _apply_service(api, layout.S3_NAMESPACE, layout.S3_SERVICE, s3, None)


def _apply_service(
    api: KubeApi, namespace: str, name: str, ports: list[Manifest], address: str | None
) -> None:
    """A Service without a selector, and the EndpointSlice that a controller would make from pods.

    An EndpointSlice may not name a loopback address, so what pods are to reach listens on the node's.
    """
    spec: Manifest = {"ports": ports} | ({"clusterIP": address} if address else {})
    api.apply(
        f"/api/v1/namespaces/{namespace}/services/{name}",
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": name, "namespace": namespace},
            "spec": spec,
        },
    )
    slice_name = f"{name}-node"
    labels = {
        "kubernetes.io/service-name": name,
        "endpointslice.kubernetes.io/managed-by": "localcluster.assay.dev",
    }
    api.apply(
        f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices/{slice_name}",
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {"name": slice_name, "namespace": namespace, "labels": labels},
            "addressType": "IPv4",
            "endpoints": [{"addresses": [layout.NODE_IP], "conditions": {"ready": True}}],
            "ports": ports,
        },
    )


def node_is_ready(api: KubeApi) -> bool:
    """Whether the node is Ready and lets pods in. Raises ApiError, with status 404 before it registered."""
    node = api.get(f"/api/v1/nodes/{layout.NODE_NAME}")
    conditions = {
        condition["type"]: condition["status"] for condition in node["status"].get("conditions", [])
    }
    return conditions.get("Ready") == "True" and not node["spec"].get("taints")
