"""The chart as helm renders it, for the Kubernetes version that the local cluster runs."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from localcluster import connect

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
def render(helm: Callable[..., str]) -> Render:
    """All objects that the chart makes of the given values laid over the images."""
    version = connect().facts.kubernetes_version

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
