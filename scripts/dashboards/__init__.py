"""Grafana dashboards, written as code: `scripts/generate.py` puts them into the chart as JSON."""

from pathlib import PurePosixPath

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from scripts.dashboards import compare, operator_health, run

FOLDER = PurePosixPath("charts/assay/dashboards")


def dashboard_files() -> dict[str, str]:
    """Path below the checkout and JSON of each dashboard."""
    made = {"run": run.dashboard(), "compare": compare.dashboard(), "operator": operator_health.dashboard()}
    return {
        str(FOLDER / f"{name}.json"): JSONEncoder(sort_keys=True, indent=2).encode(one.build()) + "\n"
        for name, one in made.items()
    }
