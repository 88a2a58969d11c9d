"""Dashboard *Operator health*: whether operator and gateway see everything, keep up, and are let to work."""

from grafana_foundation_sdk.builders.dashboard import Dashboard, Row

from scripts.dashboards.panels import Query, Shown, fill, lines, new_dashboard, number

RATE = "$__rate_interval"


def dashboard() -> Dashboard:
    """The dashboard."""
    made = new_dashboard(
        "assay-operator",
        "Assay / Operator health",
        "Whether the operator sees everything and keeps up, and what the gateway hears of S3 and providers.",
    )
    return fill(made, (*_sees(), *_keeps_up(), *_gateway()))


def _sees() -> list[Shown]:
    return [
        Row("Sees and acts"),
        number(
            "At work",
            "Processes that hold the Lease: 1. At 0 nothing is done; a second one waits and has none.",
            Query("sum(assay_lease_held)", "operators"),
            limits=((None, "red"), (1, "green")),
        ),
        number(
            "Runs",
            "EvaluationRuns that exist, by state.",
            Query("sum by (state) (assay_runs)", "{{state}}"),
            width=12,
        ),
        number(
            "Oldest watch",
            "Seconds since the quietest watch was heard; the API server speaks every minute.",
            Query("max(assay_watch_age_seconds)", "heard"),
            unit="s",
            limits=((None, "green"), (120, "orange"), (300, "red")),
        ),
        number(
            "Journal lag",
            "Age of the oldest finished try, of any run, that is not durable.",
            Query("max(assay_run_journal_lag_seconds)", "lag"),
            unit="s",
            limits=((None, "green"), (60, "orange"), (300, "red")),
        ),
        lines(
            "Seconds since each watch was heard",
            "A saw of a minute is healthy.",
            [Query("assay_watch_age_seconds", "{{resource}} in {{namespace}}")],
            unit="s",
        ),
        lines(
            "Not durable yet",
            "Finished tries that the journal does not hold.",
            [Query("sum by (namespace) (assay_run_unrecorded_tries)", "{{namespace}}")],
        ),
    ]


def _keeps_up() -> list[Shown]:
    quantile = "histogram_quantile(%s, sum by (le) (rate(assay_reconcile_%s_bucket[" + RATE + "])))"
    return [
        Row("Keeps up"),
        lines(
            "From a change to the pass that acts on it",
            "Grows when the operator lacks CPU or passes are long.",
            [Query(quantile % (q, "lag_seconds"), name) for q, name in (("0.5", "median"), ("0.99", "99 %"))],
            width=8,
            unit="s",
        ),
        lines(
            "Duration of a pass",
            "One pass over one run, its requests included.",
            [Query(quantile % (q, "seconds"), name) for q, name in (("0.5", "median"), ("0.99", "99 %"))],
            width=8,
            unit="s",
        ),
        lines(
            "Requests to the API server",
            "By verb and status, a second. 403 is a lack of RBAC, 429 of priority; none is no answer.",
            [Query(f"sum by (verb, code) (rate(assay_api_requests_total[{RATE}]))", "{{verb}} {{code}}")],
            width=8,
            unit="reqps",
        ),
        lines(
            "Jobs",
            "Created, deleted once durable, and vanished: deleted by somebody else, each costs a try.",
            [
                Query(f"sum(increase(assay_jobs_{name}_total[{RATE}]))", name)
                for name in ("created", "removed", "vanished")
            ],
            width=8,
        ),
        lines(
            "CPU",
            "Cores in use. The operator has one loop: near 1 it is the bottleneck.",
            [Query(f'rate(process_cpu_seconds_total{{job=~".*operator.*"}}[{RATE}])', "operator")],
            width=8,
        ),
        lines(
            "Memory",
            "Resident bytes; grows with the records of unfinished runs.",
            [Query('process_resident_memory_bytes{job=~".*operator.*"}', "operator")],
            width=8,
            unit="bytes",
        ),
    ]


def _gateway() -> list[Shown]:
    return [
        Row("Gateway"),
        lines(
            "Requests",
            "By code: the gateway's own word for a failure, or the class of the HTTP status.",
            [Query(f"sum by (code) (rate(assay_gateway_requests_total[{RATE}]))", "{{code}}")],
            width=8,
            unit="reqps",
        ),
        lines(
            "Model calls by the provider's answer",
            "429 asks for less parallelism; unreachable and 5xx are the provider's.",
            [
                Query(
                    f"sum by (api, answer) (rate(assay_gateway_model_calls_total[{RATE}]))",
                    "{{api}} {{answer}}",
                )
            ],
            width=8,
            unit="reqps",
        ),
        lines(
            "Under way",
            "Requests under way, and model calls that wait for a free place.",
            [
                Query("sum(assay_gateway_requests_in_flight)", "requests"),
                Query("sum(assay_gateway_model_calls_waiting)", "waiting model calls"),
            ],
            width=8,
        ),
    ]
