"""The chart as helm renders it, for the Kubernetes version that the local cluster runs."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "charts" / "assay"
DIGEST = "sha256:" + "a" * 64
IMAGES: dict[str, Any] = {
    "operator": {"image": f"registry.example/operator@{DIGEST}"},
    "runnerImage": f"registry.example/runner@{DIGEST}",
    "sandboxdImage": f"registry.example/sandboxd@{DIGEST}",
}

Object = dict[str, Any]
Render = Callable[..., list[Object]]


class RenderFailed(Exception):
    """Helm refused; the message is what a user reads."""


@pytest.fixture(scope="session")
def helm() -> Callable[..., str]:
    """Runs helm with arguments and values; raises RenderFailed with its standard error."""

    def call(*arguments: str, values: Object) -> str:
        done = subprocess.run(
            ["helm", *arguments, "--values", "-"],
            input=json.dumps(values),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RenderFailed(done.stderr + done.stdout)
        return done.stdout

    return call


@pytest.fixture(scope="session")
def version() -> str:
    """The Kubernetes version of the cluster that the tests run in."""
    told = subprocess.run(["kubectl", "version", "--output=json"], check=True, capture_output=True, text=True)
    return str(json.loads(told.stdout)["serverVersion"]["gitVersion"])


@pytest.fixture(scope="session")
def render(helm: Callable[..., str], version: str) -> Render:
    """All objects that the chart makes of the given values laid over the images."""

    def call(namespace: str = "assay-system", /, **values: Any) -> list[Object]:
        text = helm(
            "template",
            "assay",
            str(CHART),
            f"--namespace={namespace}",
            f"--kube-version={version}",
            values={**IMAGES, **values},
        )
        return [found for found in yaml.safe_load_all(text) if found]

    return call


@pytest.fixture(scope="session")
def rendered(render: Render) -> list[Object]:
    """The chart with nothing but images set, for two namespaces of runs."""
    return render(runNamespaces=["evals", "nightly"])
