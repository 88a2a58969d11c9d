"""The scripted model server of the examples: what a provider would be, inside the cluster."""

import secrets
from typing import Any

import yaml

from demo.commands import apply
from demo.install import ROOT, RUN_NAMESPACE, built_images
from demo.kube import SECRETS, Kube
from demo.rollout import await_rollout
from demo.target import Target

MANIFEST = ROOT / "examples" / "model-server" / "deployment.yaml"
NAME = "scripted-model"
ENDPOINT = f"http://{NAME}.{RUN_NAMESPACE}/v1"


def start_model_server(target: Target, namespace: str = RUN_NAMESPACE) -> None:
    """Applies the server with a key of its own, and returns when it serves. Raises DemoError."""
    image = target.image(built_images("model-server")["model-server"])
    documents = [
        _placed(found, namespace, image) for found in yaml.safe_load_all(MANIFEST.read_text()) if found
    ]
    with Kube(target.kubeconfig) as kube:
        if kube.find(SECRETS, namespace, NAME) is None:
            documents.insert(0, _key(namespace))
        apply(documents)
        await_rollout(kube, namespace, NAME)


def _placed(document: dict[str, Any], namespace: str, image: str) -> dict[str, Any]:
    document["metadata"]["namespace"] = namespace
    if document["kind"] == "Deployment":
        for container in document["spec"]["template"]["spec"]["containers"]:
            container["image"] = image
    return document


def _key(namespace: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": NAME, "namespace": namespace},
        "stringData": {"api-key": secrets.token_hex(16)},
    }
