"""etcd, API server, controller manager and scheduler."""

from __future__ import annotations

import json

from localcluster import layout
from localcluster.components.model import Component, Settings, http_ok
from localcluster.kubeapi import KubeApi
from localcluster.layout import Profile


def etcd(settings: Settings) -> Component:
    client = f"http://127.0.0.1:{layout.ETCD_PORT}"
    return Component(
        "etcd",
        [
            settings.binary("etcd"),
            "--data-dir", str(settings.root / "etcd"),
            "--listen-client-urls", client,
            "--advertise-client-urls", client,
            "--listen-peer-urls", "http://127.0.0.1:2380",
            # Nothing in here outlives the cluster.
            "--unsafe-no-fsync",
        ],
        http_ok(layout.ETCD_PORT, "/readyz"),
    )  # fmt: skip


def apiserver(settings: Settings, after: tuple[str, ...] = ("etcd",)) -> Component:
    pki = settings.layout.pki
    api = KubeApi(pki)
    return Component(
        "kube-apiserver",
        [
            settings.binary("kubernetes", "kube-apiserver"),
            "--etcd-servers", f"http://127.0.0.1:{layout.ETCD_PORT}",
            "--bind-address", "0.0.0.0",  # noqa: S104
            "--advertise-address", layout.NODE_IP,
            "--secure-port", str(layout.API_PORT),
            "--tls-cert-file", str(pki / "apiserver.crt"),
            "--tls-private-key-file", str(pki / "apiserver.key"),
            "--client-ca-file", str(pki / "ca.crt"),
            "--kubelet-client-certificate", str(pki / "admin.crt"),
            "--kubelet-client-key", str(pki / "admin.key"),
            "--kubelet-certificate-authority", str(pki / "ca.crt"),
            "--kubelet-preferred-address-types", "InternalIP",
            "--service-account-key-file", str(pki / "service-account.key"),
            "--service-account-signing-key-file", str(pki / "service-account.key"),
            "--service-account-issuer", f"https://kubernetes.default.svc.{layout.CLUSTER_DOMAIN}",
            "--service-cluster-ip-range", layout.SERVICE_CIDR,
            "--authorization-mode", "Node,RBAC",
            "--enable-admission-plugins", "NodeRestriction",
            "--allow-privileged",
        ],
        lambda: api.text("/readyz") == "ok",
        after,
    )  # fmt: skip


def controller_manager(settings: Settings) -> Component:
    pki, conf = settings.layout.pki, settings.layout.conf
    kubeconfig = str(conf / "kube-controller-manager.kubeconfig")
    return Component(
        "kube-controller-manager",
        [
            settings.binary("kubernetes", "kube-controller-manager"),
            "--kubeconfig", kubeconfig,
            "--authentication-kubeconfig", kubeconfig,
            "--authorization-kubeconfig", kubeconfig,
            "--bind-address", "127.0.0.1",
            "--leader-elect=false",
            "--use-service-account-credentials",
            "--service-account-private-key-file", str(pki / "service-account.key"),
            "--root-ca-file", str(pki / "ca.crt"),
            "--allocate-node-cidrs",
            "--cluster-cidr", layout.POD_CIDR,
            "--service-cluster-ip-range", layout.SERVICE_CIDR,
            # Made if it is absent, and the default is outside of the cluster's folder.
            "--flex-volume-plugin-dir", str(settings.layout.volume_plugins),
            # The default of 20 calls a second is what a run with hundreds of Jobs would wait for.
            "--kube-api-qps", "300",
            "--kube-api-burst", "500",
            # Simulated pods end in a moment, so there are many more of them than on a real node.
            *(["--concurrent-job-syncs", "20"] if settings.profile is Profile.SIMULATED else []),
        ],
        http_ok(10257, "/healthz", tls=True),
        ("kube-apiserver",),
    )  # fmt: skip


def scheduler(settings: Settings) -> Component:
    conf = settings.layout.conf
    kubeconfig = str(conf / "kube-scheduler.kubeconfig")
    configuration = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": kubeconfig, "qps": 300, "burst": 500},
        "leaderElection": {"leaderElect": False},
    }
    path = conf / "kube-scheduler.yaml"
    path.write_text(json.dumps(configuration, indent=2))
    return Component(
        "kube-scheduler",
        [
            settings.binary("kubernetes", "kube-scheduler"),
            "--config", str(path),
            "--authentication-kubeconfig", kubeconfig,
            "--authorization-kubeconfig", kubeconfig,
            "--bind-address", "127.0.0.1",
        ],
        http_ok(10259, "/healthz", tls=True),
        ("kube-apiserver",),
    )  # fmt: skip
