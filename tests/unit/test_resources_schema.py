"""The generated CRDs obey the conventions of docs/reference/resources.md: the Kube-API linter, as a test."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from scripts.generate import generated_files

ROOT = Path(__file__).resolve().parents[2]
CRDS = {path.name: yaml.safe_load(path.read_text()) for path in sorted((ROOT / "crds").glob("*.yaml"))}
Node = dict[str, Any]


def versions(crd: Node) -> Iterator[Node]:
    yield from crd["spec"]["versions"]


def nodes(crd: Node) -> Iterator[tuple[str, Node]]:
    """Path and schema of every field below spec and status."""
    for version in versions(crd):
        properties = version["schema"]["openAPIV3Schema"]["properties"]
        for part in ("spec", "status"):
            yield from _below(part, properties[part])


def _below(path: str, node: Node) -> Iterator[tuple[str, Node]]:
    yield path, node
    for name, child in node.get("properties", {}).items():
        yield from _below(f"{path}.{name}", child)
    if "items" in node:
        yield from _below(f"{path}[]", node["items"])
    if "additionalProperties" in node:
        yield from _below(f"{path}{{}}", node["additionalProperties"])


every_crd = pytest.mark.parametrize("crd", CRDS.values(), ids=list(CRDS))


def test_there_are_three_kinds() -> None:
    assert [crd["spec"]["names"]["kind"] for crd in CRDS.values()] == [
        "AgentVariant",
        "EvaluationRun",
        "Ledger",
    ]


def test_the_checked_in_files_are_those_of_the_models() -> None:
    stale = [name for name, text in generated_files().items() if (ROOT / name).read_text() != text]
    assert stale == [], "run `make generate`"


@every_crd
def test_types_are_those_of_the_api_conventions(crd: Node) -> None:
    for path, node in nodes(crd):
        assert node["type"] in {"object", "array", "string", "integer", "boolean"}, (
            f"{path} is a {node['type']}"
        )
        if node["type"] == "boolean":
            assert path == "spec.suspend", f"{path}: use an enumeration"
        assert "x-kubernetes-preserve-unknown-fields" not in node, path
        assert "nullable" not in node, path


@every_crd
def test_everything_is_bounded(crd: Node) -> None:
    for path, node in nodes(crd):
        match node["type"]:
            case "string" if "enum" not in node and node.get("format") != "date-time":
                assert node["maxLength"] <= 4096, path
            case "integer":
                assert "minimum" in node, path
                assert "maximum" in node or node["format"] == "int64", path
            case "array":
                assert node["maxItems"] <= 100, path
            case "object" if "properties" not in node:
                assert node["maxProperties"] <= 64, path


@every_crd
def test_descriptions_begin_with_the_field_s_name(crd: Node) -> None:
    for path, node in nodes(crd):
        name = path.rsplit(".", 1)[-1]
        if name.endswith(("[]", "{}")):
            continue
        first = node["description"].split()[0].rstrip(":,.")
        assert first == name, f"{path}: {node['description']}"


@every_crd
def test_names_follow_the_conventions(crd: Node) -> None:
    for path, _ in nodes(crd):
        name = path.rsplit(".", 1)[-1].rstrip("[]{}")
        assert name.isalnum(), path
        assert name[0].islower(), path
        assert name != "phase", f"{path}: conditions tell the state"
        assert "duration" not in name.lower(), f"{path}: durations are whole seconds"


@every_crd
def test_durations_are_whole_seconds(crd: Node) -> None:
    for path, node in nodes(crd):
        if path.endswith("Seconds") and path.startswith("spec"):
            assert node["type"] == "integer", path


@every_crd
def test_lists_say_how_they_are_merged(crd: Node) -> None:
    for path, node in nodes(crd):
        if node["type"] != "array":
            continue
        assert node["x-kubernetes-list-type"] in {"map", "set", "atomic"}, path
        if node["x-kubernetes-list-type"] == "map":
            keys = set(node["x-kubernetes-list-map-keys"])
            assert keys <= set(node["items"].get("required", [])), f"{path}: keys must be required"


@every_crd
def test_conditions_are_a_map_by_type(crd: Node) -> None:
    found = dict(nodes(crd))
    assert found["status.conditions"]["x-kubernetes-list-map-keys"] == ["type"]
    required = set(found["status.conditions[]"]["required"])
    assert {"type", "status", "reason", "lastTransitionTime", "observedGeneration"} <= required


@every_crd
def test_a_field_is_required_or_optional_never_both(crd: Node) -> None:
    for path, node in nodes(crd):
        for name in node.get("required", []):
            assert "default" not in node["properties"][name], f"{path}.{name}"


@every_crd
def test_rules_have_messages_that_help(crd: Node) -> None:
    for version in versions(crd):
        rules = version["schema"]["openAPIV3Schema"]["x-kubernetes-validations"]
        assert any("oldSelf" in rule["rule"] for rule in rules), "immutability belongs to the parent"
        for rule in rules:
            assert len(rule["message"]) > 15


@every_crd
def test_a_field_never_guards_its_own_change(crd: Node) -> None:
    # A transition rule of a field is skipped when the field is added or removed.
    for path, node in nodes(crd):
        for rule in node.get("x-kubernetes-validations", []):
            assert "oldSelf" not in rule["rule"] or path in {"spec", "status"}, path


@every_crd
def test_few_columns_and_age_last(crd: Node) -> None:
    for version in versions(crd):
        columns = version["additionalPrinterColumns"]
        *facts, age = [column["name"] for column in columns if not column.get("priority")]
        assert len(facts) <= 5, "a line of `kubectl get` fits a terminal"
        assert (age, columns[-1]["name"]) == ("Age", "Age")
        assert version["subresources"] == {"status": {}}


@every_crd
def test_one_short_name_and_the_category(crd: Node) -> None:
    assert len(crd["spec"]["names"]["shortNames"]) == 1
    assert crd["spec"]["names"]["categories"] == ["assay"]


def test_the_chart_keeps_the_kinds_when_it_goes() -> None:
    text = (ROOT / "charts/assay/templates/crds.yaml").read_text()
    for document in yaml.safe_load_all(text):
        assert document["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
        del document["metadata"]["annotations"]
        assert document in CRDS.values()
