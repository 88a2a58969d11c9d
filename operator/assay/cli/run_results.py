"""`assay results`: one row for each attempt or try, for scripts and spreadsheets."""

import csv
import io
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any

import typer

from assay.api.evaluation_run import EvaluationRun
from assay.cli.cluster import Cluster, Context, Kubeconfig, Namespace, end_with, exit_status, with_cluster
from assay.cli.output import console, print_json
from assay.cli.run_evidence import Endpoint, RunEvidence, open_store
from assay.cli.run_plan import plan_of
from assay.cli.run_views import RunName
from assay.core.attempts import AttemptState, Scored
from assay.core.explanation import state_of, tries_by_attempt
from assay.core.plan import RunPlan
from assay.core.record import TryRecord
from assay.core.terminal_text import one_line

COLUMNS = (
    "ledger",
    "task",
    "variant",
    "repetition",
    "try",
    "fate",
    "outcome",
    "reward",
    "score",
    "reason",
    "endedAt",
    "agentSeconds",
    "totalSeconds",
    "inputTokens",
    "cacheReadTokens",
    "outputTokens",
    "modelCalls",
    "flags",
    "job",
    "evidence",
    "manifest",
)
_REASON = 300


class Form(StrEnum):
    """How the rows are printed."""

    TSV = "tsv"
    CSV = "csv"
    JSON = "json"


def results(
    run: RunName,
    form: Annotated[Form, typer.Option("--format", help="How the rows are printed.")] = Form.TSV,
    all_tries: Annotated[
        bool, typer.Option("--all-tries", help="Also the tries that were replaced: they cost, too.")
    ] = False,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    endpoint: Endpoint = None,
) -> None:
    """Print the result of every attempt of a run, from its journal; also of a run that still goes on.

    An attempt that has no result yet has no row, an invalid one has its last try without a score. An empty
    cell is unknown. Exit status as of `assay show`.

    Example:

        kubectl assay results nightly --format csv > nightly.csv
    """

    async def read(cluster: Cluster) -> tuple[EvaluationRun, list[dict[str, Any]]]:
        found = await cluster.run(run)
        async with open_store(endpoint) as store:
            plan, evidence = await plan_of(cluster, store, found), RunEvidence(store, found)
            records = await evidence.records() if found.status.started_at else []
            return found, list(_rows(found, plan, evidence, records, all_tries))

    found, rows = with_cluster(read, namespace, context, kubeconfig)
    if form is Form.JSON:
        print_json(rows)
    else:
        sys.stdout.write(_separated(rows, "," if form is Form.CSV else "\t"))
    if not rows:
        console.print(f"EvaluationRun {run} has no recorded attempt yet", markup=False)
    end_with(exit_status(found))


def _rows(
    run: EvaluationRun,
    plan: RunPlan,
    evidence: RunEvidence,
    records: Sequence[TryRecord],
    all_tries: bool,
) -> Iterable[dict[str, Any]]:
    by_attempt, now = tries_by_attempt(records), datetime.now(UTC)
    for key, tries in by_attempt.items():
        if key.ledger not in plan.limits:
            continue
        state = state_of(run, plan, by_attempt, key, now)
        result = state.retained if isinstance(state, Scored) else tries[-1]
        for record in tries:
            if all_tries or record.try_number == result.try_number:
                yield _row(evidence, record, state)


def _row(evidence: RunEvidence, record: TryRecord, state: AttemptState) -> dict[str, Any]:
    retained = isinstance(state, Scored) and state.retained.try_number == record.try_number
    shown = state.retained if isinstance(state, Scored) and retained else record
    return {
        "ledger": record.key.ledger,
        "task": record.key.task,
        "variant": record.key.variant,
        "repetition": record.key.repetition,
        "try": record.try_number,
        "fate": "retained" if retained else "replaced" if isinstance(state, Scored) else type(state).__name__,
        "outcome": record.outcome.value,
        "reward": record.reward,
        "score": state.score if isinstance(state, Scored) and retained else None,
        "reason": one_line(record.reason, _REASON),
        "endedAt": record.ended_at.isoformat(timespec="seconds"),
        "agentSeconds": shown.agent_seconds,
        "totalSeconds": shown.total_seconds,
        "inputTokens": shown.tokens.input,
        "cacheReadTokens": shown.tokens.cache_read,
        "outputTokens": shown.tokens.output,
        "modelCalls": shown.model_calls,
        "flags": ",".join(shown.flags),
        "job": record.job_name,
        "evidence": f"s3://{evidence.bucket}/{evidence.prefix_of(record)}",
        "manifest": record.manifest_digest or None,
    }


def _separated(rows: Iterable[dict[str, Any]], delimiter: str) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, delimiter=delimiter, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
