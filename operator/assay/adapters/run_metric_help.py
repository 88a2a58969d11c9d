"""The families of run series: type, and what to do with them. docs/reference/metrics.md is made of it."""

from typing import Literal, NamedTuple

Kind = Literal["gauge", "counter", "histogram"]


class Family(NamedTuple):
    """A family of series. `labels` come after `namespace` and `run`."""

    kind: Kind
    labels: tuple[str, ...]
    help: str


_ROW = ("ledger", "variant")


def _gauge(*labels: str, help: str) -> Family:
    return Family("gauge", labels, help)


def _counter(*labels: str, help: str) -> Family:
    return Family("counter", labels, help)


FAMILIES: dict[str, Family] = {
    "assay_run_attempts": _gauge(
        "state",
        help="Attempts of a run by state; the states add up to what is planned. recorded + invalid is"
        " how far it is, waiting is the queue.",
    ),
    "assay_run_condition": _gauge(
        "condition",
        help="1 where a condition of the run is True. Alert on Stalled and Suspended; kubectl "
        "describe says why.",
    ),
    "assay_run_start_time_seconds": _gauge(
        help="When the run started, Unix time; absent before. With attempts it gives the time left."
    ),
    "assay_run_end_time_seconds": _gauge(help="When the run ended, Unix time; absent before."),
    "assay_run_slots": _gauge(
        help="spec.parallelism: as many Jobs may be live. Raise it if live Jobs stay at it and nodes "
        "are idle."
    ),
    "assay_run_live_jobs": _gauge(
        "waiting_for",
        help="Jobs of live tries by what they wait for; Nothing is a try that works. "
        "ImageUnavailable, PodNotStarted, PodRefused and Unschedulable need a person.",
    ),
    "assay_run_unrecorded_tries": _gauge(
        help="Finished tries that the journal does not hold yet. It should return to 0 within seconds."
    ),
    "assay_run_journal_lag_seconds": _gauge(
        help="Age of the oldest finished try that the journal does not hold. Minutes mean that S3 "
        "does not take writes."
    ),
    "assay_run_planned_attempts": _gauge(*_ROW, help="Planned attempts: the denominator of coverage."),
    "assay_run_scored_attempts": _gauge(
        *_ROW, help="Attempts with a score: the n to show beside every score and mean."
    ),
    "assay_run_score_ratio": _gauge(
        *_ROW,
        "measure",
        help="Score from 0 to 1, mean over tasks of what is recorded so far. strict counts a missing "
        "score as 0 and ranks; valid leaves it out. Never show it without n and coverage.",
    ),
    "assay_run_coverage_ratio": _gauge(*_ROW, help="Scored over planned attempts."),
    "assay_run_score_bound_ratio": _gauge(
        *_ROW,
        "bound",
        help="95 % interval of the strict score by task clusters, not clipped; there once the report "
        "is written, where there are enough clusters.",
    ),
    "assay_run_shift_ratio": _gauge(
        *_ROW, help="Strict score minus the baseline's on the same tasks; from the report."
    ),
    "assay_run_shift_bound_ratio": _gauge(
        *_ROW, "bound", help="95 % interval of the shift against the baseline; from the report."
    ),
    "assay_run_shift_p_value": _gauge(
        *_ROW,
        help="Exact sign-flip test of the shift, adjusted for all tests of the run (Holm). Below 0.05"
        " it is more than noise.",
    ),
    "assay_run_baseline_drift_ratio": _gauge(
        "ledger", help="The baseline's score now minus that of the ledger's reference run; from the report."
    ),
    "assay_run_baseline_drift_p_value": _gauge(
        "ledger",
        help="Test of the baseline's drift, adjusted (Holm). Below 0.05 something besides the "
        "variants changed: do not compare with earlier runs.",
    ),
    "assay_run_cost_usd": _gauge(
        *_ROW,
        "tries",
        help="USD by the price sheet: of retained tries, and of those that were replaced. A lower "
        "bound where assay_run_priced_attempts is below scored attempts; from the report.",
    ),
    "assay_run_priced_attempts": _gauge(
        *_ROW, help="Scored attempts whose cost is known: the n of the retained cost."
    ),
    "assay_run_attempt_outcomes": _gauge(
        *_ROW,
        "outcome",
        help="Attempts by the class of their latest recorded try. What is neither Graded nor an "
        "agent's own end lowers coverage.",
    ),
    "assay_run_tries_total": _counter(
        *_ROW,
        "outcome",
        help="Recorded tries by outcome class, replaced ones included. Beyond one an attempt they are"
        " retries.",
    ),
    "assay_run_infrastructure_errors_total": _counter(
        *_ROW,
        help="Recorded tries lost to the infrastructure, the provider's limits included. Look at a "
        "share of tries, not at the count.",
    ),
    "assay_run_refusals_total": _counter(*_ROW, help="Recorded tries that a model or provider refused."),
    "assay_run_flagged_tries_total": _counter(
        *_ROW, help="Recorded tries with a flag, such as a suspicion of tampering: read their evidence."
    ),
    "assay_run_model_calls_total": _counter(*_ROW, help="Model calls of recorded tries."),
    "assay_run_metered_tries_total": _counter(
        *_ROW, help="Recorded tries whose tokens are known: divide tokens by it, not by all tries."
    ),
    "assay_run_tokens_total": _counter(
        *_ROW,
        "kind",
        help="Tokens of recorded tries, replaced ones included. input contains cache_read and "
        "cache_write, output contains reasoning: do not add them all up.",
    ),
    "assay_run_phase_seconds": Family(
        "histogram",
        (*_ROW, "phase"),
        "Wall seconds of recorded tries by phase; total is the whole try. A long setup or upload is "
        "the infrastructure's, a long agent or verifier the task's.",
    ),
}
