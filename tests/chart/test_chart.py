"""What the chart makes, judged without installing it."""

import json
import shutil
import subprocess
import tomllib
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.chart.conftest import CHART, DIGEST, IMAGES, ROOT, Object, Render, RenderFailed


def of_kind(objects: list[Object], kind: str) -> list[Object]:
    return [found for found in objects if found["kind"] == kind]


def test_chart_and_package_have_one_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    package = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert (chart["version"], chart["appVersion"]) == (package, package)


def test_lint_finds_nothing(helm: Callable[..., str]) -> None:
    assert "0 chart(s) failed" in helm("lint", str(CHART), "--strict", values=IMAGES)


@pytest.fixture(scope="module")
def namespaces() -> Iterator[tuple[str, str]]:
    """Two namespaces of these tests alone, labelled as docs/install.md says: the release's, the runs'."""
    made = f"chart-system-{uuid.uuid4().hex[:8]}", f"chart-runs-{uuid.uuid4().hex[:8]}"
    for name, level in zip(made, ("restricted", "baseline"), strict=True):
        _kubectl("create", "namespace", name)
        _kubectl("label", "namespace", name, f"pod-security.kubernetes.io/enforce={level}")
    yield made
    _kubectl("delete", "namespace", *made, "--wait=false")


def _kubectl(*arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    command = ["kubectl", *arguments]
    done = subprocess.run(command, input=stdin, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"createRunNamespaces": True},
        {"imagePullSecrets": ["mirror"], "storage": {"credentialsSecret": "", "pathStyle": True}},
        {
            "network": {"clusterCIDRs": ["203.0.113.0/24"], "dns": {"cidrs": ["203.0.113.10/32"]}},
            "operator": {
                **IMAGES["operator"],
                "nodeSelector": {"pool": "system"},
                "tolerations": [{"key": "x"}],
            },
        },
    ],
)
def test_api_server_accepts_every_object(render: Render, namespaces: tuple[str, str], values: Object) -> None:
    """Server-side dry run, with strict field validation: schemas of the built-in kinds and of CRDs."""
    release, runs = namespaces
    objects = render(release, runNamespaces=[runs], **values)
    document = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    flags = ("--server-side", "--dry-run=server", "--force-conflicts", "--validate=strict")
    done = _kubectl("apply", *flags, "-f", "-", stdin=document)
    assert "Warning" not in done.stderr
    assert len(done.stdout.splitlines()) == len(objects)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"operator": {}}, "operator.image is required"),
        ({"runnerImage": "registry.example/runner:latest"}, "name the image by digest"),
        ({"sandboxdImage": f"sandboxd@{DIGEST[:-1]}"}, 'sandboxdImage is "sandboxd@sha256:aaa'),
        ({"runNamespaces": []}, "/runNamespaces"),
        ({"runNamespaces": ["evals", "evals"]}, "/runNamespaces"),
        (
            {"runNamespaces": ["assay-system"], "createRunNamespaces": True},
            "set createRunNamespaces to false",
        ),
        ({"storage": {"endpoint": "s3.example"}}, "/storage/endpoint"),
        ({"storage": {"checksumMode": "always"}}, "/storage/checksumMode"),
        ({"network": {"clusterCIDRs": ["10.0.0.0"]}}, "/network/clusterCIDRs/0"),
        ({"gateway": {"replica": 2}}, "replica"),
        ({"operator": {**IMAGES["operator"], "logLevel": "trace"}}, "/operator/logLevel"),
    ],
)
def test_refusal_names_the_value(render: Render, values: Object, message: str) -> None:
    with pytest.raises(RenderFailed) as refusal:
        render(**values)
    assert message in str(refusal.value)


def test_crds_outlive_the_release(rendered: list[Object]) -> None:
    crds = of_kind(rendered, "CustomResourceDefinition")
    assert {crd["spec"]["names"]["kind"] for crd in crds} == {"Ledger", "AgentVariant", "EvaluationRun"}
    for crd in crds:
        assert crd["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"


def test_operator_and_gateway_fit_pod_security_restricted(rendered: list[Object]) -> None:
    deployments = of_kind(rendered, "Deployment")
    assert sorted(found["metadata"]["namespace"] for found in deployments) == [
        "assay-system",
        "evals",
        "nightly",
    ]
    for deployment in deployments:
        pod = deployment["spec"]["template"]["spec"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in pod["containers"]:
            security = container["securityContext"]
            assert security["readOnlyRootFilesystem"] is True
            assert security["allowPrivilegeEscalation"] is False
            assert security["capabilities"] == {"drop": ["ALL"]}
            assert "@sha256:" in container["image"]


def test_the_operator_is_one_and_never_two(rendered: list[Object]) -> None:
    (operator,) = (d for d in of_kind(rendered, "Deployment") if d["metadata"]["name"] == "assay-operator")
    assert operator["spec"]["replicas"] == 1
    assert operator["spec"]["strategy"] == {"type": "Recreate"}


def test_the_pod_outlives_the_gateways_drain(render: Render) -> None:
    for found in of_kind(render(gateway={"drainSeconds": 900}), "Deployment"):
        if found["metadata"]["name"] == "assay-gateway":
            assert found["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] > 900 + 5


def rules(objects: list[Object], account: str) -> Iterator[tuple[str, Any]]:
    """Every rule that a service account's roles hold, with the kind of the role."""
    bound = {
        (found["kind"].removesuffix("Binding"), found["roleRef"]["name"])
        for found in objects
        if found["kind"] in ("RoleBinding", "ClusterRoleBinding")
        and account in {subject["name"] for subject in found["subjects"]}
    }
    for found in objects:
        if (found["kind"], found["metadata"]["name"]) in bound:
            for rule in found["rules"]:
                yield found["kind"], rule


@pytest.mark.parametrize("account", ["assay-operator", "assay-gateway"])
def test_rights_name_one_resource_each_and_no_wildcard(rendered: list[Object], account: str) -> None:
    found = list(rules(rendered, account))
    assert found
    for _, rule in found:
        assert len(rule["resources"]) == 1
        assert "*" not in rule["resources"] + rule["verbs"] + rule["apiGroups"]


def test_nobody_can_list_secrets_and_the_operator_reads_none(rendered: list[Object]) -> None:
    secret_rules = [
        (account, kind, rule["verbs"])
        for account in ("assay-operator", "assay-gateway", "assay-attempt")
        for kind, rule in rules(rendered, account)
        if rule["resources"] == ["secrets"]
    ]
    assert {(account, kind, tuple(verbs)) for account, kind, verbs in secret_rules} == {
        ("assay-gateway", "Role", ("get",))
    }


def test_the_account_of_attempt_pods_has_no_right_and_no_token(rendered: list[Object]) -> None:
    accounts = [s for s in of_kind(rendered, "ServiceAccount") if s["metadata"]["name"] == "assay-attempt"]
    assert sorted(found["metadata"]["namespace"] for found in accounts) == ["evals", "nightly"]
    assert all(found["automountServiceAccountToken"] is False for found in accounts)
    assert list(rules(rendered, "assay-attempt")) == []


def test_every_namespace_of_runs_isolates_attempt_pods(rendered: list[Object]) -> None:
    policies = {
        (found["metadata"]["namespace"], found["metadata"]["name"]): found["spec"]
        for found in of_kind(rendered, "NetworkPolicy")
    }
    for namespace in ("evals", "nightly"):
        closed = policies[namespace, "assay-attempt"]
        assert closed["podSelector"] == {"matchLabels": {"assay.dev/role": "attempt"}}
        assert closed["policyTypes"] == ["Ingress", "Egress"]
        assert "ingress" not in closed
        (way_out,) = closed["egress"]
        assert way_out["to"] == [{"podSelector": {"matchLabels": {"assay.dev/role": "gateway"}}}]
        assert way_out["ports"] == [{"protocol": "TCP", "port": 8080}]


def test_internet_excludes_private_metadata_and_cluster_addresses(render: Render) -> None:
    objects = render(network={"clusterCIDRs": ["203.0.113.0/24"], "deniedCIDRs": ["198.51.100.7/32"]})
    (policy,) = (
        p for p in of_kind(objects, "NetworkPolicy") if p["metadata"]["name"] == "assay-attempt-internet"
    )
    block = policy["spec"]["egress"][0]["to"][0]["ipBlock"]
    assert block["cidr"] == "0.0.0.0/0"
    closed = {
        "10.0.0.0/8",
        "172.16.0.0/12",
        "192.168.0.0/16",
        "169.254.0.0/16",
        "203.0.113.0/24",
        "198.51.100.7/32",
    }
    assert closed <= set(block["except"])


def test_no_service_monitor_unless_asked(rendered: list[Object], render: Render) -> None:
    assert not of_kind(rendered, "ServiceMonitor")
    asked = render(metrics={"serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}}})
    monitors = of_kind(asked, "ServiceMonitor")
    assert {found["metadata"]["name"] for found in monitors} == {"assay-operator", "assay-gateway"}
    assert all(found["metadata"]["labels"]["release"] == "prometheus" for found in monitors)


def test_notes_tell_what_to_do_next(helm: Callable[..., str], version: str, tmp_path: Path) -> None:
    """Rendered through a copy whose notes are a template, as `helm template` leaves notes out."""
    copy = tmp_path / "assay"
    shutil.copytree(CHART, copy)
    notes = (copy / "templates/NOTES.txt").read_text()
    as_template = '{{ define "notes" }}' + notes + '{{ end }}notes: {{ include "notes" . | quote }}'
    (copy / "templates/notes.yaml").write_text(as_template)
    place = ("--namespace=assay-system", "--show-only=templates/notes.yaml")
    text = helm("template", "assay", str(copy), f"--kube-version={version}", *place, values=IMAGES)
    said = yaml.safe_load(text)["notes"]
    assert "kubectl --namespace assay-system rollout status deployment/assay-operator" in said
    assert "kubectl label namespace evals pod-security.kubernetes.io/enforce=baseline" in said
    assert "Secret assay-storage (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY) in assay-system and evals" in said
