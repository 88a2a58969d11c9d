"""The scripted model server of the examples: what a provider would be, inside the cluster."""

from typing import Any

import yaml

from demo.commands import apply
from demo.install import ROOT, RUN_NAMESPACE, built_images
from demo.kube import Kube
from demo.rollout import await_rollout
from demo.target import Target

MANIFEST = ROOT / "examples" / "manifests" / "model-server.yaml"
NAME = "model-server"
SECRET = "scripted-provider"  # noqa: S105  its name
ENDPOINT = f"http://{NAME}.{RUN_NAMESPACE}:8000/v1"


def start_model_server(target: Target) -> None:
    """Applies the server with the image that is built now; returns when it serves. Raises DemoError."""
    image = target.image(built_images("model-server")["model-server"])
    documents: list[dict[str, Any]] = list(yaml.safe_load_all(MANIFEST.read_text()))
    for document in documents:
        if document["kind"] == "Deployment":
            for container in document["spec"]["template"]["spec"]["containers"]:
                container["image"] = image
    apply(documents)
    with Kube(target.kubeconfig) as kube:
        await_rollout(kube, RUN_NAMESPACE, NAME)
