"""The reference page of the metrics, written from the very tables that the processes export from."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from prometheus_client import CollectorRegistry

from assay.adapters.metrics import OperatorMetrics
from assay.adapters.run_metric_help import FAMILIES
from assay.gateway.metrics import Metrics as GatewayMetrics

PAGE = "docs/reference/metrics.md"


class _Row(NamedTuple):
    name: str
    kind: str
    labels: tuple[str, ...]
    help: str


def metrics_page() -> dict[str, str]:
    """The page by its path."""
    runs = (
        _Row(name, one.kind, ("namespace", "run", *one.labels), one.help) for name, one in FAMILIES.items()
    )
    parts = [
        "# Metrics",
        "",
        "Written by `scripts/generate.py`; how they are meant is in [metrics.md](../metrics.md).",
        "Series of the process itself (`process_…`) come on top.",
        "",
        "## Of runs, from the operator",
        "",
        *_table(runs),
        "",
        "## Of the operator's process",
        "",
        *_table(_registered(OperatorMetrics().registry)),
        "",
        "## Of each gateway process",
        "",
        *_table(_registered(GatewayMetrics().registry)),
    ]
    return {PAGE: "\n".join(parts) + "\n"}


def _table(rows: Iterable[_Row]) -> Iterator[str]:
    yield "| name | type | labels | meaning |"
    yield "| --- | --- | --- | --- |"
    for row in rows:
        labels = ", ".join(f"`{label}`" for label in row.labels)
        yield f"| `{row.name}` | {row.kind} | {labels} | {row.help} |"


def _registered(registry: CollectorRegistry) -> Iterator[_Row]:
    # A metric without samples tells its labels nowhere in public.
    for collector in registry._collector_to_names:
        labels = getattr(collector, "_labelnames", None)
        if labels is None:
            continue
        for family in collector.collect():
            name = f"{family.name}_total" if family.type == "counter" else family.name
            yield _Row(name, family.type, tuple(labels), family.documentation)
