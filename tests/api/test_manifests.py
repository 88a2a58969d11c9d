"""Every manifest that we show to people is one that the API server takes, and `kubectl explain` helps."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.api.conftest import ROOT, Api, kubectl

_FENCED = re.compile(r"^```ya?ml\n(.*?)^```", re.DOTALL | re.MULTILINE)


def _documents() -> Iterator[Any]:
    """Every manifest of examples/ and of the pages, of our kinds and of Kubernetes' own."""
    for path in sorted((ROOT / "examples").rglob("*.yaml")):
        yield from _of_file(path, path.read_text())
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        for block in _FENCED.findall(path.read_text()):
            yield from _of_file(path, block)


def _of_file(path: Path, text: str) -> Iterator[Any]:
    for document in yaml.safe_load_all(text):
        if not isinstance(document, dict) or not {"apiVersion", "kind", "metadata"} <= document.keys():
            continue
        group = document["apiVersion"].rpartition("/")[0]
        if "." not in group or group.endswith(("k8s.io", "assay.dev")):
            name = f"{path.relative_to(ROOT)}:{document['kind']}/{document['metadata']['name']}"
            yield pytest.param(document, id=name)


@pytest.mark.parametrize("document", list(_documents()))
def test_the_api_server_takes_it(api: Api, document: dict[str, Any]) -> None:
    metadata = {key: value for key, value in document["metadata"].items() if key != "namespace"}
    said = kubectl(
        "apply",
        "--server-side",
        "--dry-run=server",
        "--validate=strict",
        "--namespace",
        api.namespace,
        "-f",
        "-",
        stdin=yaml.safe_dump({**document, "metadata": metadata}),
    )
    assert "serverside-applied" in said


def test_the_examples_hold_the_demonstration() -> None:
    kinds = [parameter.values[0]["kind"] for parameter in _documents()]
    assert kinds.count("AgentVariant") >= 3
    assert "EvaluationRun" in kinds


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("ledgers.spec.digest", "sha256 over the bytes of the ledger file"),
        ("agentvariants.spec.models.provider.secretRef", "names the provider's key"),
        ("evaluationruns.spec.parallelism", "how many tries may be live at once"),
        ("evaluationruns.status.vector.coverage", "valid over planned"),
        ("evalrun.spec.storage.s3.bucket", "takes the evidence"),
        ("variant.spec.agent.arguments", "as Harbor's"),
        ("ledg.status.frozenAt", "first verified"),
    ],
)
def test_kubectl_explains(api: Api, path: str, says: str) -> None:
    assert says in " ".join(kubectl("explain", path).split())


def test_kubectl_lists_all_kinds_by_category(api: Api) -> None:
    kubectl("get", "assay", "-n", api.namespace)
