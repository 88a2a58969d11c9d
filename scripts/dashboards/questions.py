"""The dashboards' panels as questions to a Prometheus, with Grafana's variables filled in."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.dashboards.prometheus import Prometheus, Sample

FOLDER = Path(__file__).resolve().parents[2] / "charts" / "assay" / "dashboards"
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")


@dataclass(frozen=True, slots=True)
class Target:
    """One query of a panel."""

    ref: str
    expression: str
    legend: str
    instant: bool

    def named(self, labels: Mapping[str, str]) -> str:
        """The legend of a series with these labels."""
        return re.sub(r"\{\{(\w+)\}\}", lambda found: labels.get(found[1], ""), self.legend)


@dataclass(frozen=True, slots=True)
class PanelQuestion:
    """A panel: `definition` is Grafana's JSON of it."""

    dashboard: str
    definition: Mapping[str, Any]

    @property
    def title(self) -> str:
        """Its headline."""
        return str(self.definition["title"])

    @property
    def targets(self) -> list[Target]:
        """Its queries."""
        return [
            Target(one["refId"], one["expr"], one.get("legendFormat", ""), bool(one.get("instant")))
            for one in self.definition.get("targets", [])
        ]


def panels() -> Iterator[PanelQuestion]:
    """All panels of all dashboards, headlines of rows included."""
    for path in sorted(FOLDER.glob("*.json")):
        for definition in json.loads(path.read_text())["panels"]:
            yield PanelQuestion(path.stem, definition)


@dataclass(frozen=True, slots=True)
class View:
    """What a person has chosen in Grafana: a run and a time."""

    namespace: str
    run: str
    start: float
    end: float

    def filled(self, expression: str) -> str:
        """The query as Grafana sends it. Raises KeyError for a variable that Grafana would not know."""
        seconds = max(60, round(self.end - self.start))
        known = {
            "namespace": self.namespace,
            "run": self.run,
            "__range": f"{seconds}s",
            "__rate_interval": f"{min(seconds, 60)}s",
        }
        return _VARIABLE.sub(lambda found: known[found[1] or found[2]], expression)

    def ask(self, prometheus: Prometheus, target: Target) -> list[Sample]:
        """The answer that the panel would draw."""
        query = self.filled(target.expression)
        if target.instant:
            return prometheus.now(query, self.end)
        return prometheus.over(query, self.start, self.end)
