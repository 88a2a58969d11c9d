"""The operator's metrics: an own registry, and labels that do not grow with attempts (cases.md BAR 10)."""

from collections import Counter as Tally
from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from assay.adapters.run_metrics import RunSeries

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
_SECONDS = (0.005, 0.025, 0.1, 0.5, 2.5, 10, 30, 120)


class OperatorMetrics:
    """All series of the operator: `runs` follow from their records, the others tell of this process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry(auto_describe=True)
        self.run_series = RunSeries()
        ProcessCollector(registry=self.registry)
        self.runs = Gauge(
            "assay_runs",
            "EvaluationRuns that exist, by state.",
            ["namespace", "state"],
            registry=self.registry,
        )
        self.reconcile_seconds = Histogram(
            "assay_reconcile_seconds",
            "Duration of one pass over one run. Above some seconds, runs wait for each other.",
            registry=self.registry,
            buckets=_SECONDS,
        )
        self.reconcile_lag_seconds = Histogram(
            "assay_reconcile_lag_seconds",
            "Seconds from a change of a run, its Jobs or pods to the pass that acts on it. It grows "
            "when the operator lacks CPU.",
            registry=self.registry,
            buckets=_SECONDS,
        )
        self.watch_age = Gauge(
            "assay_watch_age_seconds",
            "Seconds since a watch was last heard. The API server speaks every minute: above 5 "
            "minutes the operator is blind, and restarts itself.",
            ["namespace", "resource"],
            registry=self.registry,
        )
        self.lease_held = Gauge(
            "assay_lease_held",
            "1 while this process holds the Lease and works. No process with 1 means that nothing is done.",
            registry=self.registry,
        )
        self.api_requests = Counter(
            "assay_api_requests",
            "Requests to the API server by verb and HTTP status; none is no answer. 403 is a lack of "
            "RBAC, 429 a lack of its priority.",
            ["verb", "code"],
            registry=self.registry,
        )
        self.jobs_created = Counter(
            "assay_jobs_created", "Jobs that this process has created.", registry=self.registry
        )
        self.jobs_removed = Counter(
            "assay_jobs_removed",
            "Jobs that this process has deleted because their result is durable; it follows the creations.",
            registry=self.registry,
        )
        self.jobs_vanished = Counter(
            "assay_jobs_vanished",
            "Jobs that vanished without a result, deleted by somebody else. Each costs a try.",
            registry=self.registry,
        )

        self.orphans_removed = Counter(
            "assay_orphans_removed",
            "Jobs and pods of attempts that were removed because nothing owned them any more.",
            ["namespace", "kind"],
            registry=self.registry,
        )

    def set_runs(self, namespace: str, states: Iterable[str]) -> None:
        """Set how many runs of a namespace are in which state."""
        tally = Tally(states)
        for state in ("waiting", "running", "suspended", "complete", "failed"):
            self.runs.labels(namespace, state).set(tally[state])

    def count_request(self, verb: str, code: str) -> None:
        """Count a request to the API server; `code` is its HTTP status, or "none"."""
        self.api_requests.labels(verb, code).inc()

    def render(self) -> bytes:
        """The series in Prometheus' text format."""
        return generate_latest(self.registry) + self.run_series.render().encode()
