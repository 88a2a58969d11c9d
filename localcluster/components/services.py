"""What pods need from around them and usually get from elsewhere: images, names, an object store."""

from __future__ import annotations

import json
import sys

from localcluster import layout
from localcluster.components.model import Component, Settings, http_ok
from localcluster.kubeapi import KubeApi
from localcluster.objects import apply_services


def registry(settings: Settings) -> Component:
    """The reference registry: `crane registry serve` would forget every manifest at a restart."""
    configuration = {
        "version": "0.1",
        "log": {"level": "warn", "accesslog": {"disabled": True}},
        "storage": {
            "filesystem": {"rootdirectory": str(settings.layout.registry)},
            "delete": {"enabled": True},
            "maintenance": {"uploadpurging": {"enabled": False}},
        },
        "http": {"addr": layout.REGISTRY_ADDRESS},
    }
    path = settings.layout.conf / "registry.yaml"
    path.write_text(json.dumps(configuration, indent=2))
    port = int(layout.REGISTRY_ADDRESS.rpartition(":")[2])
    return Component(
        "registry",
        [settings.binary("registry"), "serve", str(path)],
        http_ok(port, "/v2/"),
        # Telemetry is on by default and would look for a collector.
        environment={"OTEL_TRACES_EXPORTER": "none"},
    )


def pause_image(settings: Settings) -> Component:
    """Every pod needs this image before its own; a second push of the same one takes a moment."""
    name = layout.PAUSE_IMAGE.partition("/")[2]
    return Component(
        "pause-image",
        [sys.executable, "-m", "localcluster.pauseimage", settings.binary("crane"), settings.binary("pause"),
         f"{layout.REGISTRY_ADDRESS}/{name}"],
        after=("registry",),
        once=True,
    )  # fmt: skip


def s3(settings: Settings) -> Component:
    """versitygw: a real S3 API over a folder."""
    folder = settings.root / "s3"
    folder.mkdir(exist_ok=True)
    return Component(
        "versitygw",
        [
            settings.binary("versitygw"),
            "--port", f"{layout.NODE_IP}:{layout.S3_PORT}",
            "--region", layout.S3_REGION,
            "--health", "/healthz",
            "--quiet",
            "posix", str(folder),
        ],
        http_ok(layout.S3_PORT, "/healthz", host=layout.NODE_IP),
        environment={"ROOT_ACCESS_KEY": settings.s3_access_key, "ROOT_SECRET_KEY": settings.s3_secret_key},
    )  # fmt: skip


def bucket(settings: Settings) -> Component:
    return Component(
        "s3-bucket",
        [
            sys.executable,
            "-m",
            "localcluster.bucket",
            f"http://{layout.NODE_IP}:{layout.S3_PORT}",
            layout.S3_BUCKET,
        ],
        after=("versitygw",),
        environment={
            "AWS_ACCESS_KEY_ID": settings.s3_access_key,
            "AWS_SECRET_ACCESS_KEY": settings.s3_secret_key,
            "AWS_REGION": layout.S3_REGION,
        },
        once=True,
    )


def services(settings: Settings) -> Component:
    api = KubeApi(settings.layout.pki)

    def apply() -> bool:
        apply_services(api)
        return True

    return Component("services", ready=apply, after=("kube-apiserver",))


def dns(settings: Settings) -> Component:
    """CoreDNS as a process of the node: a pod of its own would need an image and a place among the tasks."""
    path = settings.layout.conf / "Corefile"
    path.write_text(
        f""".:53 {{
    bind {layout.NODE_IP}
    errors
    health 127.0.0.1:8080
    ready 127.0.0.1:8181
    kubernetes {layout.CLUSTER_DOMAIN} in-addr.arpa {{
        kubeconfig {settings.layout.kubeconfig}
        fallthrough in-addr.arpa
        ttl 5
    }}
    cache 5
}}
"""
    )
    return Component(
        "coredns",
        [settings.binary("coredns"), "-conf", str(path)],
        http_ok(8181, "/ready"),
        ("services",),
    )
