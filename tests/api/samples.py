"""Objects with every field set, so that a test can change or remove any one of them."""

import itertools
from datetime import UTC, datetime
from typing import Any

from assay.api.conditions import MESSAGE_LIMIT, Condition
from assay.api.evaluation_run_status import (
    MAX_FAILURES,
    SCORES_LIMIT,
    AttemptCounts,
    EvaluationRunStatus,
    Failure,
    IndexRow,
    Mean,
    OutcomeCount,
    Report,
    Resolved,
    ResolvedImages,
    ResolvedLedger,
    ResolvedVariant,
    RunCondition,
    VectorRow,
)
from assay.api.outcome import OutcomeClass

Object = dict[str, Any]

API_VERSION = "assay.dev/v1alpha1"
DIGEST = "sha256:" + "a" * 64
IMAGE = f"registry.example/some/image@{DIGEST}"
UID = "00000000-0000-4000-8000-000000000000"
NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)

LARGEST_LEDGERS, LARGEST_VARIANTS = 2, 50
"""The widest run of at most 100 pairs."""

_numbers = itertools.count(1)


def _object(kind: str, spec: Object) -> Object:
    name = f"{kind.lower()}-{next(_numbers)}"
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec}


def ledger() -> Object:
    """A Ledger with every field of its spec."""
    return _object(
        "Ledger",
        {
            "benchmark": {"name": "deepswe", "version": "1.1"},
            "digest": DIGEST,
            "source": {"s3": {"bucket": "evidence", "key": "ledgers/one.jsonl"}},
            "harness": {
                "repository": "https://git.example/harness",
                "commit": "a" * 40,
                "runnerImage": IMAGE,
            },
        },
    )


def variant() -> Object:
    """An AgentVariant with every field of its spec."""
    return _object(
        "AgentVariant",
        {
            "displayName": "An agent",
            "agent": {
                "name": "terminus-2",
                "version": "1.0",
                "bundleImage": IMAGE,
                "arguments": {"max_turns": "50"},
                "environment": [{"name": "LANG", "value": "C"}],
            },
            "models": [
                {
                    "role": "main",
                    "name": "openai/gpt-x",
                    "reasoningEffort": "high",
                    "sampling": {"temperature": "0.2"},
                    "provider": {
                        "endpoint": "https://api.example/v1",
                        "api": "OpenAIChat",
                        "secretRef": {"name": "provider", "key": "api-key"},
                    },
                }
            ],
        },
    )


def run() -> Object:
    """An EvaluationRun with every field of its spec."""
    return _object(
        "EvaluationRun",
        {
            "ledgers": [{"name": "one"}],
            "variants": [{"name": "candidate"}, {"name": "control"}],
            "baseline": {"name": "control"},
            "suite": {"name": "index", "version": "1.5"},
            "repetitions": 3,
            "parallelism": 4,
            "budget": {"usd": "500.00"},
            "priceSheet": {"digest": DIGEST, "source": {"configMap": {"name": "prices"}}},
            "retryLimits": {"infrastructure": 1, "disruption": 2, "verification": 1, "refusal": 0},
            "deadlines": {
                "pendingSeconds": 60,
                "setupSeconds": 60,
                "agentSeconds": 60,
                "verifierSeconds": 60,
                "uploadSeconds": 60,
            },
            "placement": {
                "nodeSelector": {"pool": "evals"},
                "tolerations": [{"key": "evals", "operator": "Exists", "effect": "NoSchedule"}],
                "priorityClassName": "low",
                "runtimeClassName": "gvisor",
                "imagePullSecrets": [{"name": "pull"}],
                "imageRewrites": [{"from": "docker.io/", "to": "mirror.example/"}],
            },
            "storage": {"s3": {"bucket": "evidence", "prefix": "runs/"}},
            "minCoveragePercent": 90,
            "suspend": False,
            "suspendPolicy": "Drain",
            "queueName": "batch",
            "retry": {"unscoredOnly": 0},
            "ttlSecondsAfterFinished": 3600,
            "reuse": {"runs": [{"name": "earlier"}]},
        },
    )


def largest_status() -> EvaluationRunStatus:
    """The status of a run that is as large as it may be: every list full, every text at its limit."""
    mean = Mean(mean="12345678.1", n=100_000)
    return EvaluationRunStatus(
        observed_generation=7,
        conditions=[
            Condition(
                type=name.value,
                status="False",
                observed_generation=7,
                last_transition_time=NOW,
                reason="R" * 64,
                message="m" * MESSAGE_LIMIT,
            )
            for name in RunCondition
        ],
        started_at=NOW,
        completed_at=NOW,
        attempts=AttemptCounts(planned=100_000, waiting=10, live=20, recorded=99_000, invalid=970),
        scores="s" * SCORES_LIMIT,
        outcomes=[OutcomeCount(outcome=outcome, tries=100_000) for outcome in OutcomeClass],
        recent_failures=[
            Failure(
                job_name=f"{index:02d}" + "j" * 61,
                task="t" * 250,
                variant=_long(0, "v"),
                repetition=99,
                outcome=OutcomeClass.PROVIDER_RATE_LIMITED,
                message="m" * 300,
                time=NOW,
            )
            for index in range(MAX_FAILURES)
        ],
        resolved=Resolved(
            ledgers=[
                ResolvedLedger(
                    name=_long(index, "l"), uid=UID, digest=DIGEST, plan_digest=DIGEST, tasks=100_000
                )
                for index in range(LARGEST_LEDGERS)
            ],
            variants=[
                ResolvedVariant(name=_long(index, "v"), uid=UID, fingerprint=DIGEST)
                for index in range(LARGEST_VARIANTS)
            ],
            images=ResolvedImages(
                runner="r" * 440 + "@" + DIGEST,
                sandboxd="s" * 440 + "@" + DIGEST,
            ),
            price_sheet=DIGEST,
        ),
        vector=[
            _largest_row(_long(ledger, "l"), _long(variant, "v"), mean)
            for ledger in range(LARGEST_LEDGERS)
            for variant in range(LARGEST_VARIANTS)
        ],
        index=[
            IndexRow(
                variant=_long(variant, "v"), value="0.123456", interval="-1.1234 12.1234", shift="-0.1234"
            )
            for variant in range(LARGEST_VARIANTS)
        ],
        evidence_prefix="p" * 400,
        observed_retry=1000,
        report=Report(
            revision=1000,
            digest=DIGEST,
            bucket="b" * 63,
            key="k" * 450,
            supersedes=DIGEST,
            html_key="k" * 450,
            html_digest=DIGEST,
        ),
    )


def _long(index: int, letter: str) -> str:
    return f"{index:02d}".ljust(63, letter)


def _largest_row(ledger_name: str, variant_name: str, mean: Mean) -> VectorRow:
    return VectorRow(
        ledger=ledger_name,
        variant=variant_name,
        planned=100_000,
        valid=99_999,
        coverage="0.999999",
        score_strict="0.123456",
        score_valid="0.123456",
        score_interval="-1.1234 12.1234",
        shift="-0.1234",
        input_tokens=mean,
        cache_read_tokens=mean,
        cache_write_tokens=mean,
        output_tokens=mean,
        agent_seconds=mean,
        total_seconds=mean,
        cost_usd=mean,
        tries=300_000,
        infra_errors=100_000,
        refusals=100_000,
        flagged=100_000,
        harness_commit="c" * 40,
        harbor_version="0.26.0" + "x" * 14,
    )


def largest_run() -> Object:
    """A run of as many and as long names as fit."""
    body = run()
    body["metadata"]["name"] = _long(next(_numbers), "r")
    body["spec"] |= {
        "ledgers": [{"name": _long(index, "l")} for index in range(LARGEST_LEDGERS)],
        "variants": [{"name": _long(index, "v")} for index in range(LARGEST_VARIANTS)],
        "baseline": {"name": _long(0, "v")},
        "priceSheet": {"digest": DIGEST, "source": {"s3": {"bucket": "b" * 63, "key": "k" * 512}}},
    }
    return body
