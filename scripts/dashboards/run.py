"""Dashboard *Run*: how far one run is, how good, and what is wrong with it."""

from grafana_foundation_sdk.builders.dashboard import Dashboard, Row

from scripts.dashboards.panels import (
    Column,
    Query,
    Shown,
    bars,
    fill,
    lines,
    new_dashboard,
    number,
    rows,
    states,
    variable,
)

RUN = 'namespace="$namespace",run="$run"'
ROW = {"ledger": "ledger", "variant": "variant"}
SHARE = "percentunit"


def of(metric: str, more: str = "") -> str:
    """The run's series of a metric, as they last were in the time range: a deleted run has none now."""
    return f"last_over_time({metric}{{{RUN}{more}}}[$__range])"


def dashboard() -> Dashboard:
    """The dashboard."""
    made = new_dashboard(
        "assay-run",
        "Assay / Run",
        "One EvaluationRun: how far, how good, what is wrong. See docs/metrics.md.",
    )
    made.with_variable(variable("namespace", "Namespace", "label_values(assay_run_slots, namespace)"))
    made.with_variable(variable("run", "Run", 'label_values(assay_run_slots{namespace="$namespace"}, run)'))
    return fill(made, (*_how_far(), *_how_good(), *_what_is_wrong(), *_what_it_took()))


def _how_far() -> list[Shown]:
    ended = f'sum(assay_run_attempts{{{RUN},state=~"recorded|invalid"}})'
    left = f'sum(assay_run_attempts{{{RUN},state=~"waiting|live"}})'
    start = f"max(assay_run_start_time_seconds{{{RUN}}})"
    now = f"(max(assay_run_end_time_seconds{{{RUN}}}) or {start} * 0 + time())"
    return [
        Row("How far"),
        number(
            "Progress",
            "Attempts that have ended, with a score or without, of all planned ones.",
            Query(f"{ended} / sum(assay_run_attempts{{{RUN}}})", "ended"),
            unit=SHARE,
            decimals=1,
        ),
        number(
            "Attempts",
            "Attempts by state. invalid ones have used up their retries and have no score.",
            Query(f"sum by (state) (assay_run_attempts{{{RUN}}})", "{{state}}"),
            width=8,
        ),
        number(
            "Running for",
            "From the first Job to the end, or to now.",
            Query(f"{now} - {start}", "running"),
            unit="s",
        ),
        number(
            "Time left",
            "At the mean pace since the start; 0 once all attempts have ended.",
            Query(f"{left} / ({ended} > 0) * ({now} - {start})", "left"),
            unit="s",
        ),
        number(
            "Live Jobs / slots",
            "Jobs of live tries beside spec.parallelism.",
            [
                Query(f"sum(assay_run_live_jobs{{{RUN}}})", "live"),
                Query(f"max(assay_run_slots{{{RUN}}})", "slots"),
            ],
        ),
        lines(
            "Attempts over time",
            "Attempts by state. Where recorded stops growing while live does not fall, look below.",
            [Query(f"sum by (state) (assay_run_attempts{{{RUN}}})", "{{state}}")],
            stacked=True,
        ),
        lines(
            "What live tries wait for",
            "Nothing is a try that works. ImageUnavailable, PodNotStarted, PodRefused and Unschedulable need "
            "a person.",
            [
                Query(f"sum by (waiting_for) (assay_run_live_jobs{{{RUN}}}) > 0", "{{waiting_for}}"),
                Query(f"max(assay_run_slots{{{RUN}}})", "slots"),
            ],
        ),
    ]


def _how_good() -> list[Shown]:
    score = f"avg by (ledger, variant) ({of('assay_run_score_ratio', ',measure=%s')})"
    # With few clusters the interval is wider than what a score can be.
    bound = f"clamp(avg by (ledger, variant) ({of('assay_run_score_bound_ratio', ',bound=%s')}), 0, 1)"
    summed = "sum by (ledger, variant) (%s)"
    return [
        Row("How good"),
        rows(
            "Score with its n and coverage",
            "The strict score counts a missing result as 0; the valid one leaves it out. The interval is "
            "there once the report is written, by task clusters. A score without full coverage says little.",
            ROW,
            [
                Column(score % '"strict"', "strict score", SHARE, 1),
                Column(bound % '"low"', "95 % from", SHARE, 1),
                Column(bound % '"high"', "to", SHARE, 1),
                Column(score % '"valid"', "valid score", SHARE, 1),
                Column(summed % of("assay_run_scored_attempts"), "n"),
                Column(summed % of("assay_run_planned_attempts"), "planned"),
                Column(
                    f"avg by (ledger, variant) ({of('assay_run_coverage_ratio')})",
                    "coverage",
                    SHARE,
                    1,
                    ((None, "red"), (1, "green")),
                ),
            ],
            height=6,
            best_first="strict score",
        ),
    ]


def _what_is_wrong() -> list[Shown]:
    tries = f"sum(assay_run_tries_total{{{RUN}}})"
    return [
        Row("What is wrong"),
        states(
            "Conditions",
            "When each condition was True. Stalled and Suspended need a person: kubectl describe says why.",
            Query(f"max by (condition) (assay_run_condition{{{RUN}}})", "{{condition}}"),
            width=8,
        ),
        bars(
            "Attempts by outcome",
            "Class of the latest try of each attempt: docs/reference/outcomes.md.",
            [Query(f"sum by (outcome) ({of('assay_run_attempt_outcomes')}) > 0", "{{outcome}}")],
            width=8,
        ),
        bars(
            "Tries by outcome",
            "All recorded tries, replaced ones included.",
            [Query(f"sum by (outcome) ({of('assay_run_tries_total')}) > 0", "{{outcome}}")],
            width=8,
        ),
        number(
            "Infrastructure errors",
            "Share of recorded tries that the infrastructure lost. Above some percent, mend it before you "
            "go on.",
            Query(
                f"sum(assay_run_infrastructure_errors_total{{{RUN}}}) / clamp_min({tries}, 1)",
                "of tries",
            ),
            width=6,
            unit=SHARE,
            decimals=1,
            limits=((None, "green"), (0.05, "orange"), (0.2, "red")),
        ),
        number(
            "Retries",
            "Recorded tries beyond the first of each attempt.",
            Query(f"{tries} - sum(assay_run_attempt_outcomes{{{RUN}}})", "retries"),
            width=6,
        ),
        number(
            "Refusals and flags",
            "Tries that a model or provider refused, and tries with a flag such as suspected tampering.",
            [
                Query(f"sum(assay_run_refusals_total{{{RUN}}})", "refused"),
                Query(f"sum(assay_run_flagged_tries_total{{{RUN}}})", "flagged"),
            ],
            width=6,
        ),
        number(
            "Not durable yet",
            "Finished tries that the journal does not hold. Above 0 for minutes: S3 does not take writes.",
            Query(f"sum(assay_run_unrecorded_tries{{{RUN}}})", "tries"),
            width=6,
        ),
    ]


def _what_it_took() -> list[Shown]:
    tokens, metered = of("assay_run_tokens_total"), of("assay_run_metered_tries_total")
    count = f"sum by (phase) ({of('assay_run_phase_seconds_count')})"
    quantile = f"histogram_quantile(%s, sum by (phase, le) ({of('assay_run_phase_seconds_bucket')}))"
    cost = f"sum by (ledger, variant) ({of('assay_run_cost_usd', ',tries=%s')})"
    summed = "sum by (ledger, variant) (%s)"
    return [
        Row("What it took"),
        bars(
            "Tokens a try",
            "Mean over tries whose tokens are known. input contains cache reads and writes, output "
            "reasoning.",
            [
                Query(
                    f"sum by (variant, kind) ({tokens}) / on (variant) group_left () "
                    f"(sum by (variant) ({metered}) > 0)",
                    "{{variant}} {{kind}}",
                )
            ],
            width=7,
        ),
        rows(
            "Seconds by phase",
            "Of all recorded tries. Quantiles are read off the histogram, so they are as coarse as its "
            "buckets.",
            {"phase": "phase"},
            [
                Column(f"{count} > 0", "tries"),
                Column(quantile % "0.5", "median", "s", 0),
                Column(quantile % "0.9", "90 % within", "s", 0),
                Column(f"sum by (phase) ({of('assay_run_phase_seconds_sum')}) / {count}", "mean", "s", 1),
            ],
            width=7,
        ),
        rows(
            "Cost",
            "USD by the price sheet, once the report is written. A lower bound where priced is below n.",
            ROW,
            [
                Column(summed % of("assay_run_priced_attempts"), "priced"),
                Column(summed % of("assay_run_scored_attempts"), "n"),
                Column(cost % '"retained"', "retained", "currencyUSD", 2),
                Column(cost % '"replaced"', "replaced", "currencyUSD", 2),
            ],
            width=10,
        ),
    ]
