"""Dashboard *Compare variants*: which is better, by how much, is that more than noise, and at what price."""

from grafana_foundation_sdk.builders.dashboard import Dashboard

from scripts.dashboards.panels import Column, Query, Shown, bars, fill, new_dashboard, rows, scatter, variable

RUN = 'namespace="$namespace",run=~"$run"'
KEYS = {"run": "run", "ledger": "ledger", "variant": "variant"}
BY = "by (run, ledger, variant)"
SHARE = "percentunit"
INPUT_AND_OUTPUT = ',kind=~"input|output"'
"""They contain the other kinds."""


def of(metric: str, more: str = "") -> str:
    """Of each row, the last value in the time range."""
    return f"sum {BY} (last_over_time({metric}{{{RUN}{more}}}[$__range]))"


def dashboard() -> Dashboard:
    """The dashboard."""
    made = new_dashboard(
        "assay-compare",
        "Assay / Compare variants",
        "Variants of one or several runs side by side. Shifts and intervals are those of the reports.",
    )
    made.with_variable(variable("namespace", "Namespace", "label_values(assay_run_slots, namespace)"))
    made.with_variable(
        variable("run", "Runs", 'label_values(assay_run_slots{namespace="$namespace"}, run)', multi=True)
    )
    return fill(made, (_scores(), _shifts(), *_prices()))


def _scores() -> Shown:
    # With few clusters the interval is wider than what a score can be.
    score_bound = f"clamp({of('assay_run_score_bound_ratio', ',bound=%s')}, 0, 1)"
    return rows(
        "Strict score with its interval, n and coverage",
        "Sort by the strict score. Where two intervals overlap, look at the shift below before you call one "
        "better. The interval is by task clusters; it is there once the report is written, from two "
        "clusters on.",
        KEYS,
        [
            Column(of("assay_run_score_ratio", ',measure="strict"'), "strict score", SHARE, 1),
            Column(score_bound % '"low"', "95 % from", SHARE, 1),
            Column(score_bound % '"high"', "to", SHARE, 1),
            Column(of("assay_run_scored_attempts"), "n"),
            Column(of("assay_run_planned_attempts"), "planned"),
            Column(of("assay_run_coverage_ratio"), "coverage", SHARE, 1, ((None, "red"), (1, "green"))),
        ],
        height=6,
        best_first="strict score",
    )


def _shifts() -> Shown:
    shift_bound = f"clamp({of('assay_run_shift_bound_ratio', ',bound=%s')}, -1, 1)"
    return rows(
        "Shift against the baseline",
        "Strict score minus the baseline's on the same tasks. Adjusted p below 0.05 is more than noise, "
        "whatever the size of the shift.",
        KEYS,
        [
            Column(of("assay_run_shift_ratio"), "shift", SHARE, 1),
            Column(shift_bound % '"low"', "95 % from", SHARE, 1),
            Column(shift_bound % '"high"', "to", SHARE, 1),
            Column(
                of("assay_run_shift_p_value"), "adjusted p", "short", 3, ((None, "green"), (0.05, "text"))
            ),
        ],
        height=6,
        best_first="shift",
    )


def _prices() -> list[Shown]:
    strict = of("assay_run_score_ratio", ',measure="strict"')
    scored = f"({of('assay_run_scored_attempts')} > 0)"
    # A sum of both: where the retained cost is not known, there is no point at 0.
    both = (of("assay_run_cost_usd", f',tries="{tries}"') for tries in ("retained", "replaced"))
    cost = f"({' + '.join(both)}) / {scored}"
    metered = f"({of('assay_run_metered_tries_total')} > 0)"
    tokens = f"{of('assay_run_tokens_total', INPUT_AND_OUTPUT)} / {metered}"
    phase = ',phase="agent"'
    seconds = (
        f"{of('assay_run_phase_seconds_sum', phase)} / ({of('assay_run_phase_seconds_count', phase)} > 0)"
    )
    return [
        scatter(
            "Cost against score",
            "USD a scored attempt, replaced tries included: what the result really cost. Up and left is "
            "better.",
            Column(cost, "USD an attempt", "currencyUSD", 2),
            Column(strict, "strict score", SHARE, 1),
        ),
        scatter(
            "Tokens against score",
            "Input and output tokens a try whose tokens are known. Up and left is better.",
            Column(tokens, "tokens a try", "short", 0),
            Column(strict, "strict score", SHARE, 1),
        ),
        bars(
            "Agent seconds a try",
            "Mean wall time of the agent's phase.",
            [Query(seconds, "{{variant}}, {{ledger}}, {{run}}")],
            unit="s",
        ),
        bars(
            "Tries an attempt",
            "1 is no retry at all.",
            [
                Query(
                    f"{of('assay_run_tries_total')} / ({of('assay_run_attempt_outcomes')} > 0)",
                    "{{variant}}, {{ledger}}, {{run}}",
                )
            ],
        ),
    ]
