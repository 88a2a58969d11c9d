"""The few kinds of panels that the dashboards are made of, with the settings that all of a kind share."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from grafana_foundation_sdk.builders import (
    bargauge,
    common,
    prometheus,
    stat,
    statetimeline,
    table,
    timeseries,
    xychart,
)
from grafana_foundation_sdk.builders import dashboard as grafana
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models.common import (
    BarGaugeDisplayMode,
    BigValueGraphMode,
    LegendDisplayMode,
    LegendPlacement,
    StackingMode,
    VizOrientation,
)
from grafana_foundation_sdk.models.dashboard import (
    DashboardLinkType,
    DataSourceRef,
    DataTransformerConfig,
    DynamicConfigValue,
    Panel,
    Threshold,
    ThresholdsMode,
    VariableRefresh,
    VariableSort,
)
from grafana_foundation_sdk.models.prometheus import PromQueryFormat
from grafana_foundation_sdk.models.xychart import SeriesMapping

WIDTH = 24
"""Columns of Grafana's grid."""
SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")


Shown = grafana.Row | Builder[Panel]
"""A panel, or the headline of those that follow."""


class Query(NamedTuple):
    """One query. `name` is the legend, or the column's title in a table."""

    expression: str
    name: str


class Column(NamedTuple):
    """A column of a table: what it shows, and how."""

    expression: str
    name: str
    unit: str = "short"
    decimals: int | None = None
    limits: tuple[tuple[float | None, str], ...] = ()
    """Lower bounds and the colours from there on."""


def new_dashboard(uid: str, title: str, description: str) -> grafana.Dashboard:
    """An empty dashboard with what all have: the data source, links to the others, a day back."""
    return (
        grafana.Dashboard(title)
        .uid(uid)
        .description(description)
        .tags(["assay"])
        .readonly()
        .refresh("30s")
        .time("now-24h", "now")
        .timezone("browser")
        .link(
            grafana.DashboardLink("Assay")
            .type(DashboardLinkType.DASHBOARDS)
            .tags(["assay"])
            .as_dropdown(True)
            .include_vars(True)
            .keep_time(True)
        )
        .with_variable(grafana.DatasourceVariable("datasource").type("prometheus").label("Data source"))
    )


def fill(made: grafana.Dashboard, shown: Iterable[Shown]) -> grafana.Dashboard:
    """Put panels on a dashboard, from left to right and numbered."""
    for number, one in enumerate(shown, 1):
        # Every builder of a panel can set its number; their common type does not say so.
        one.id(number)  # type: ignore[union-attr]
        made.with_row(one) if isinstance(one, grafana.Row) else made.with_panel(one)
    return made


def variable(name: str, label: str, query: str, *, multi: bool = False) -> grafana.QueryVariable:
    """A variable with the values that a query finds, read again whenever the time range changes."""
    made = (
        grafana.QueryVariable(name)
        .label(label)
        .query(query)
        .datasource(SOURCE)
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(VariableSort.ALPHABETICAL_ASC)
    )
    return made.multi(True).include_all(True) if multi else made


def number(
    title: str,
    help_: str,
    queries: Query | Sequence[Query],
    *,
    width: int = 4,
    unit: str = "short",
    decimals: int | None = None,
    limits: Sequence[tuple[float | None, str]] = (),
) -> stat.Panel:
    """One or a few large numbers: the last ones of the time range."""
    panel = (
        stat.Panel()
        .title(title)
        .description(help_)
        .datasource(SOURCE)
        .unit(unit)
        .graph_mode(BigValueGraphMode.NONE)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
        .span(width)
        .height(4)
    )
    if decimals is not None:
        panel.decimals(decimals)
    if limits:
        panel.thresholds(_thresholds(limits))
    for target in _targets([queries] if isinstance(queries, Query) else queries):
        panel.with_target(target)
    return panel


def lines(
    title: str,
    help_: str,
    queries: Sequence[Query],
    *,
    width: int = 12,
    unit: str = "short",
    stacked: bool = False,
) -> timeseries.Panel:
    """Series over time."""
    panel = (
        timeseries.Panel()
        .title(title)
        .description(help_)
        .datasource(SOURCE)
        .unit(unit)
        .min(0)
        .legend(
            common.VizLegendOptions()
            .show_legend(True)
            .display_mode(LegendDisplayMode.LIST)
            .placement(LegendPlacement.BOTTOM)
        )
        .span(width)
        .height(8)
    )
    if stacked:
        panel.fill_opacity(60).line_width(0)
        panel.stacking(common.StackingConfig().mode(StackingMode.NORMAL))
    for target in _targets(queries):
        panel.with_target(target)
    return panel


def bars(
    title: str, help_: str, queries: Sequence[Query], *, width: int = 12, unit: str = "short"
) -> bargauge.Panel:
    """The last value of each series as a bar with its number."""
    panel = (
        bargauge.Panel()
        .title(title)
        .description(help_)
        .datasource(SOURCE)
        .unit(unit)
        .min(0)
        .orientation(VizOrientation.HORIZONTAL)
        .display_mode(BarGaugeDisplayMode.BASIC)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
        .span(width)
        .height(8)
    )
    for target in _targets(queries):
        panel.with_target(target)
    return panel


def states(title: str, help_: str, query: Query, *, width: int = 12) -> statetimeline.Panel:
    """When each series was 1."""
    panel = (
        statetimeline.Panel()
        .title(title)
        .description(help_)
        .datasource(SOURCE)
        .thresholds(_thresholds([(None, "transparent"), (1, "blue")]))
        .span(width)
        .height(8)
    )
    for target in _targets([query]):
        panel.with_target(target)
    return panel


def rows(
    title: str,
    help_: str,
    keys: Mapping[str, str],
    columns: Sequence[Column],
    *,
    width: int = WIDTH,
    height: int = 8,
    best_first: str = "",
) -> table.Panel:
    """A table: one row for each combination of the labels `keys` (label: title), one column a query.

    `best_first` names the column to sort by, from the largest on.
    """
    panel = table.Panel().title(title).description(help_).datasource(SOURCE).span(width).height(height)
    if best_first:
        panel.sort_by([common.TableSortByFieldState().display_name(best_first).desc(True)])
    names = {"Time": ""}
    for place, column in enumerate(columns):
        ref = chr(ord("A") + place)
        names[f"Value #{ref}"] = column.name
        panel.with_target(
            prometheus.Dataquery()
            .ref_id(ref)
            .expr(column.expression)
            .instant()
            .format(PromQueryFormat.TABLE)
            .legend_format(column.name)
        )
        _style(panel, column)
    panel.with_transformation(DataTransformerConfig(id_val="merge", options={}))
    renamed = {**keys, **{old: new for old, new in names.items() if new}}
    options = {
        "excludeByName": {"Time": True},
        "renameByName": renamed,
        "indexByName": {name: place for place, name in enumerate(renamed)},
    }
    return panel.with_transformation(DataTransformerConfig(id_val="organize", options=options))


def _style(panel: table.Panel | xychart.Panel, column: Column) -> None:
    properties = [DynamicConfigValue(id_val="unit", value=column.unit)]
    if column.decimals is not None:
        properties.append(DynamicConfigValue(id_val="decimals", value=column.decimals))
    if column.limits:
        found = _thresholds(column.limits).build()
        properties.append(DynamicConfigValue(id_val="thresholds", value=found))
        properties.append(DynamicConfigValue(id_val="custom.cellOptions", value={"type": "color-text"}))
    panel.override_by_name(column.name, properties)


def _targets(queries: Sequence[Query]) -> list[prometheus.Dataquery]:
    return [
        prometheus.Dataquery()
        .ref_id(chr(ord("A") + place))
        .expr(one.expression)
        .legend_format(one.name)
        .range()
        for place, one in enumerate(queries)
    ]


def _thresholds(limits: Sequence[tuple[float | None, str]]) -> grafana.ThresholdsConfig:
    steps = [Threshold(value=bound, color=colour) for bound, colour in limits]
    return grafana.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(steps)


def scatter(title: str, help_: str, x: Column, y: Column, *, width: int = 12) -> xychart.Panel:
    """A point for each combination of run, ledger and variant."""
    panel = xychart.Panel().title(title).description(help_).datasource(SOURCE).span(width).height(8)
    for ref, column in (("A", x), ("B", y)):
        panel.with_target(
            prometheus.Dataquery()
            .ref_id(ref)
            .expr(column.expression)
            .instant()
            .format(PromQueryFormat.TABLE)
            .legend_format(column.name)
        )
        _style(panel, column)
    panel.with_transformation(DataTransformerConfig(id_val="merge", options={}))
    names = {"Value #A": x.name, "Value #B": y.name}
    options = {"excludeByName": {"Time": True}, "renameByName": names}
    panel.with_transformation(DataTransformerConfig(id_val="organize", options=options))
    # One series a variant, so that each has a colour and a name.
    split = {"fields": ["variant"], "keepFields": True}
    panel.with_transformation(DataTransformerConfig(id_val="partitionByValues", options=split))
    return panel.mapping(SeriesMapping.AUTO)
