"""What a real Prometheus, which scrapes operator and gateways, answers to every panel after a real run."""

import html
import math
from collections.abc import Iterator
from functools import partial

import pytest

from demo.install import SYSTEM_NAMESPACE
from scripts.dashboards.observed_run import Observed, observed_run
from scripts.dashboards.page import render_page
from scripts.dashboards.prometheus import Sample
from scripts.dashboards.questions import PanelQuestion, panels
from tests.e2e.bench import Bench
from tests.e2e.trouble import OPERATOR, ready_pod

_OF_PROMETHEUS = {"__name__", "instance", "job", "le"}
_BOUNDED = {
    *("namespace", "run", "ledger", "variant", "outcome", "state", "resource", "condition", "waiting_for"),
    *("measure", "bound", "tries", "kind", "phase", "verb", "code", "route", "api", "answer", "direction"),
}


@pytest.fixture(scope="module")
def observed(bench: Bench, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Observed]:
    """A run of the example variants on the six examples, scraped every second from its first Job on."""
    ready_pod(bench, SYSTEM_NAMESPACE, OPERATOR)
    with observed_run(bench.target, bench.kube, tmp_path_factory.mktemp("prometheus")) as found:
        yield found


def _finite(samples: list[Sample]) -> list[float]:
    points = [point for one in samples for point in one.get("values", [one.get("value")])]
    return [value for _, text in points if math.isfinite(value := float(text))]


_PANELS = [one for one in panels() if one.targets]


@pytest.mark.parametrize("panel", _PANELS, ids=lambda panel: f"{panel.dashboard}: {panel.title}")
def test_every_query_of_a_panel_has_an_answer(panel: PanelQuestion, observed: Observed) -> None:
    for target in panel.targets:
        answer = observed.view.ask(observed.prometheus, target)
        assert _finite(answer), observed.view.filled(target.expression)


@pytest.mark.parametrize("dashboard", sorted({one.dashboard for one in _PANELS}))
def test_every_dashboard_can_be_drawn_from_the_answers(dashboard: str, observed: Observed) -> None:
    """As `python -m scripts.screenshots dashboards` does for docs/."""
    shown = [one for one in panels() if one.dashboard == dashboard]
    page = render_page(dashboard, shown, observed.prometheus, observed.view)
    for panel in shown:
        assert f"<h2>{panel.title}</h2>" in html.unescape(page)


def test_a_finished_run_is_counted_by_outcome(bench: Bench, observed: Observed) -> None:
    query = f'assay_run_attempt_outcomes{{run="{observed.view.run}"}} > 0'
    by_variant: dict[str, float] = {}
    for sample in observed.prometheus.now(query):
        variant = sample["metric"]["variant"]
        by_variant[variant] = by_variant.get(variant, 0) + float(sample["value"][1])
    assert by_variant == {row.variant: row.planned for row in observed.run.status.vector}


def test_every_alert_can_be_evaluated_and_a_healthy_run_raises_none(observed: Observed) -> None:
    health = observed.prometheus.rule_health()
    assert len(health) == 6
    assert set(health.values()) == {"ok"}
    # Runs of other tests may have cause for alerts.
    assert observed.prometheus.now(f'ALERTS{{run="{observed.view.run}"}}') == []


def test_scores_are_those_of_the_status(observed: Observed) -> None:
    query = f'assay_run_score_ratio{{run="{observed.view.run}",measure="strict"}}'
    scraped = {one["metric"]["variant"]: float(one["value"][1]) for one in observed.prometheus.now(query)}
    assert scraped == {row.variant: float(row.score_strict or -1) for row in observed.run.status.vector}


def test_nothing_is_live_and_all_is_durable_when_the_run_is_over(bench: Bench, observed: Observed) -> None:
    def left() -> float:
        run = f'{{run="{observed.view.run}"}}'
        query = f"sum(assay_run_live_jobs{run}) + sum(assay_run_unrecorded_tries{run})"
        (sample,) = observed.prometheus.now(query)
        return float(sample["value"][1])

    bench.until(lambda: left() == 0, "no live Job and no result that is not durable")


def test_counters_only_ever_grew(observed: Observed) -> None:
    resets = observed.prometheus.now(
        f'max(resets(assay_run_tries_total{{run="{observed.view.run}"}}[{60 * 60}s]))'
    )
    assert [one["value"][1] for one in resets] == ["0"]


def test_no_series_names_a_task_or_a_pod(observed: Observed) -> None:
    series = observed.prometheus.now('{__name__=~"assay_.*"}')
    assert {label for one in series for label in one["metric"]} - _OF_PROMETHEUS <= _BOUNDED


def test_no_series_of_a_run_outlives_it(bench: Bench, observed: Observed) -> None:
    """Last: the run is gone after it. What Prometheus has of the past stays."""
    bench.kubectl("delete", "evaluationrun", observed.view.run, "-n", observed.view.namespace)
    query = f'count({{run="{observed.view.run}"}})'
    bench.until(partial(_is_empty, observed, query), "no series of the deleted run")
    assert observed.view.ask(observed.prometheus, _PANELS[0].targets[0])


def _is_empty(observed: Observed, query: str) -> bool:
    return not observed.prometheus.now(query)
