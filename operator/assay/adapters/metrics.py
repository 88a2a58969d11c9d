"""The operator's metrics: an own registry, labels that do not grow with attempts, gauges made of the state.

Every figure of a run is a gauge that is set from the run's records, so a restart adds nothing and a deleted
run leaves no series (cases.md BAR 10).
"""

from collections import Counter as Tally
from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Gauge, Histogram, generate_latest

from assay.api.evaluation_run_status import AttemptCounts
from assay.core.record import TryRecord

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class OperatorMetrics:
    """All series of the operator."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry(auto_describe=True)
        self.runs = Gauge(
            "assay_runs", "EvaluationRuns by state", ["namespace", "state"], registry=self.registry
        )
        self.attempts = Gauge(
            "assay_run_attempts", "Attempts by state", ["namespace", "run", "state"], registry=self.registry
        )
        self.tries = Gauge(
            "assay_run_tries",
            "Finished tries by outcome class",
            ["namespace", "run", "ledger", "variant", "outcome"],
            registry=self.registry,
        )
        self.live_jobs = Gauge(
            "assay_run_live_jobs", "Jobs of live tries", ["namespace", "run"], registry=self.registry
        )
        self.unrecorded_tries = Gauge(
            "assay_run_unrecorded_tries",
            "Finished tries that the journal does not hold yet",
            ["namespace", "run"],
            registry=self.registry,
        )
        self.reconcile_seconds = Histogram(
            "assay_reconcile_seconds",
            "Duration of one pass over one run",
            registry=self.registry,
            buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
        )
        self.watch_age = Gauge(
            "assay_watch_age_seconds",
            "Seconds since a watch was last heard",
            ["namespace", "resource"],
            registry=self.registry,
        )
        self._tries_of: dict[tuple[str, str], set[tuple[str, str, str, str, str]]] = {}

    def set_attempts(self, namespace: str, run: str, counts: AttemptCounts) -> None:
        """Set how many attempts of a run are in which state."""
        for state in ("waiting", "live", "recorded", "invalid"):
            self.attempts.labels(namespace, run, state).set(getattr(counts, state))

    def set_tries(self, namespace: str, run: str, tries: Iterable[TryRecord], live: int) -> None:
        """Set a run's finished tries by class, and its live Jobs."""
        self.live_jobs.labels(namespace, run).set(live)
        tally = Tally((one.key.ledger, one.key.variant, one.outcome.value) for one in tries)
        shown = {(namespace, run, *labels) for labels in tally}
        for stale in self._tries_of.get((namespace, run), set()) - shown:
            self.tries.remove(*stale)
        for labels, count in tally.items():
            self.tries.labels(namespace, run, *labels).set(count)
        self._tries_of[namespace, run] = shown

    def drop_run(self, namespace: str, run: str) -> None:
        """Remove every series of a deleted run."""
        for metric in (self.attempts, self.tries, self.live_jobs, self.unrecorded_tries):
            metric.remove_by_labels({"namespace": namespace, "run": run})
        self._tries_of.pop((namespace, run), None)

    def set_runs(self, namespace: str, states: Iterable[str]) -> None:
        """Set how many runs of a namespace are in which state."""
        tally = Tally(states)
        for state in ("waiting", "running", "suspended", "complete", "failed"):
            self.runs.labels(namespace, state).set(tally[state])

    def render(self) -> bytes:
        """The series in Prometheus' text format."""
        return generate_latest(self.registry)
