"""Dashboards and alerts as the chart ships them: judged by promtool and against what the operator exports."""

import json
import re
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from assay.adapters.metrics import OperatorMetrics
from assay.adapters.run_metric_help import FAMILIES
from assay.gateway.metrics import Metrics as GatewayMetrics
from tests.chart.conftest import CHART, ROOT, Object, Render, RenderFailed

ALERTS = CHART / "alerts" / "assay.rules.yaml"
RUNBOOKS = ROOT / "docs" / "runbooks"
DASHBOARDS = sorted((CHART / "dashboards").glob("*.json"))
_NAME = re.compile(r"\b(?:assay|process)_[a-z0-9_]+")


def of_kind(objects: list[Object], kind: str) -> list[Object]:
    return [found for found in objects if found["kind"] == kind]


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load(ALERTS.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


@pytest.fixture(scope="module")
def exported() -> set[str]:
    """Every name that a scrape of operator and gateway can have."""
    names = set()
    families = {name: family.kind for name, family in FAMILIES.items()}
    for registry in (OperatorMetrics().registry, GatewayMetrics().registry):
        for metric in registry.collect():
            stem = f"{metric.name}_total" if metric.type == "counter" else metric.name
            families[stem] = metric.type  # type: ignore[assignment]
    for name, kind in families.items():
        names |= {f"{name}_{end}" for end in ("bucket", "sum", "count")} if kind == "histogram" else {name}
    return names


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_an_alert_asks_for_what_is_exported_and_leads_to_its_runbook(
    rule: dict[str, Any], exported: set[str]
) -> None:
    assert set(_NAME.findall(rule["expr"])) <= exported
    page = ROOT / rule["annotations"]["runbook_url"]
    assert page.read_text().startswith(f"# {rule['alert']}\n")
    for part in ("**Means:**", "**Look", "**Do**", "**Over**"):
        assert part in page.read_text()


def test_no_runbook_is_without_its_alert() -> None:
    pages = {f"docs/runbooks/{page.name}" for page in RUNBOOKS.glob("*.md")} - {"docs/runbooks/README.md"}
    assert pages == {rule["annotations"]["runbook_url"] for rule in rules()}


def test_each_alert_fires_where_it_must_and_stays_silent_where_it_must_not() -> None:
    """The cases are in alerts_test.yaml; here is asserted that none is missing and that Prometheus agrees."""
    cases = ROOT / "tests" / "chart" / "alerts" / "alerts_test.yaml"
    asserted: dict[str, set[bool]] = {rule["alert"]: set() for rule in rules()}
    for case in yaml.safe_load(cases.read_text())["tests"]:
        for test in case["alert_rule_test"]:
            asserted[test["alertname"]].add(bool(test["exp_alerts"]))
    assert all(found == {True, False} for found in asserted.values()), asserted
    done = subprocess.run(["promtool", "test", "rules", str(cases)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_chart_wraps_the_rule_file_as_it_is(render: Render) -> None:
    base = "https://git.example/assay/blob/v1"
    asked = render(metrics={"alerts": {"enabled": True, "labels": {"release": "prom"}, "runbookBase": base}})
    (made,) = of_kind(asked, "PrometheusRule")
    assert made["metadata"]["labels"]["release"] == "prom"
    wrapped = made["spec"]["groups"][0]["rules"]
    for plain, rule in zip(rules(), wrapped, strict=True):
        page = plain["annotations"].pop("runbook_url")
        assert rule["annotations"].pop("runbook_url") == f"{base}/{page}"
        assert rule == plain


def test_no_alerts_unless_asked(rendered: list[Object]) -> None:
    assert not of_kind(rendered, "PrometheusRule")


def test_dashboards_come_with_the_sidecars_label(render: Render) -> None:
    made = [one for one in of_kind(render(), "ConfigMap") if "dashboard" in one["metadata"]["name"]]
    assert len(made) == len(DASHBOARDS) == 3
    for one in made:
        assert one["metadata"]["labels"]["grafana_dashboard"] == "1"
        (content,) = one["data"].values()
        assert json.loads(content)["uid"].startswith("assay-")
    asked = render(
        metrics={"dashboards": {"namespace": "grafana", "annotations": {"grafana_folder": "Assay"}}}
    )
    moved = [one for one in of_kind(asked, "ConfigMap") if one["metadata"]["namespace"] == "grafana"]
    assert [one["metadata"]["annotations"] for one in moved] == [{"grafana_folder": "Assay"}] * 3
    assert not of_kind(render(metrics={"dashboards": {"enabled": False}}), "ConfigMap")


def test_a_scrape_keeps_the_namespaces_of_runs(render: Render) -> None:
    """Without honorLabels Prometheus renames them to exported_namespace, and every dashboard is empty."""
    monitors = of_kind(render(metrics={"serviceMonitor": {"enabled": True}}), "ServiceMonitor")
    (operator,) = [one for one in monitors if one["metadata"]["name"] == "assay-operator"]
    assert [one["honorLabels"] for one in operator["spec"]["endpoints"]] == [True]


def test_native_histograms_leave_the_dashboards_their_buckets(render: Render) -> None:
    asked = {"convertClassicHistogramsToNHCB": True, "scrapeClassicHistograms": True}
    for wanted, there in ((True, asked), (False, {})):
        made = render(metrics={"serviceMonitor": {"enabled": True, "nativeHistograms": wanted}})
        monitors = of_kind(made, "ServiceMonitor")
        assert {one["metadata"]["name"] for one in monitors} == {"assay-operator", "assay-gateway"}
        for one in monitors:
            assert {name: value for name, value in one["spec"].items() if "Histograms" in name} == there


def test_a_runbook_base_that_is_no_address_is_refused(render: Render) -> None:
    with pytest.raises(RenderFailed, match="runbookBase"):
        render(metrics={"alerts": {"runbookBase": "docs"}})


def panels() -> Iterator[tuple[str, dict[str, Any]]]:
    for path in DASHBOARDS:
        for panel in json.loads(path.read_text())["panels"]:
            if panel["type"] != "row":
                yield f"{path.stem}: {panel['title']}", panel


@pytest.mark.parametrize(
    ("name", "panel"), list(panels()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_a_panel_explains_itself_and_asks_for_what_is_exported(
    name: str, panel: dict[str, Any], exported: set[str]
) -> None:
    assert panel["description"]
    assert panel["datasource"]["uid"] == "${datasource}"
    for target in panel["targets"]:
        assert set(_NAME.findall(target["expr"])) <= exported, target["expr"]


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_no_panel_overlaps_another_or_leaves_the_grid(path: Any) -> None:
    taken: set[tuple[int, int]] = set()
    numbers = []
    for panel in json.loads(path.read_text())["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert all(x < 24 for x, _ in cells)
        taken |= cells
        numbers.append(panel["id"])
    assert len(set(numbers)) == len(numbers)
