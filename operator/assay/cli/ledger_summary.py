"""What `assay ledger` tells of a ledger: numbers first, and everything that is not known."""

from collections import Counter
from typing import Any

from assay.api.ledgerfile import TaskLine
from assay.core.ledger import LedgerFile
from assay.core.stated_facts import oracle_state, stated_facts

COLUMNS = (
    "TASK",
    "CLUSTER",
    "WHY",
    "LICENCE",
    "DIFFICULTY",
    "ORACLE",
    "ASSERTIONS",
    "VERIFIER",
    "NETWORK",
    "AGENT SECONDS",
    "IMAGE",
)


def task_row(task: TaskLine) -> tuple[Any, ...]:
    """A task's cells below COLUMNS."""
    read = task.failing_assertions
    return (
        task.id,
        task.cluster,
        task.cluster_reason,
        task.licence.value,
        task.difficulty.value,
        _oracle(task),
        None if read is None else f"{read.source.value} {len(read.lines)}",
        task.verifier_mode.value,
        task.network.value,
        task.timeouts.agent_seconds,
        task.images.environment,
    )


def _oracle(task: TaskLine) -> str | None:
    return f"{task.oracle.kind.value} {oracle_state(task)}" if task.oracle else None


def ledger_summary(ledger: LedgerFile) -> dict[str, Any]:
    """Identity, counts, and what is unknown."""
    header = ledger.header
    harness, upstream = header.harness, header.upstream
    facts = stated_facts(ledger)
    rules = Counter(task.cluster_rule.value if task.cluster_rule else "unstated" for task in ledger.tasks)
    return {
        "benchmark": header.benchmark,
        "version": header.version,
        "digest": ledger.digest,
        "harnessTree": harness.tree if harness else None,
        "harnessPaths": harness.paths if harness else [],
        "upstream": upstream
        and {
            "name": upstream.name,
            "listed": upstream.listed,
            "matched": upstream.matched,
            "stale": upstream.stale,
            "unlisted": len(upstream.unlisted),
            "accepted": upstream.accepted_stale.reason if upstream.accepted_stale else None,
        },
        "tasks": len(ledger.tasks),
        "clusters": ledger.clusters,
        "clusterRules": dict(sorted(rules.items())),
        "repositories": ledger.repositories,
        "licences": dict(ledger.licences),
        "difficulties": dict(ledger.difficulties),
        "oracles": facts.oracles,
        "unknowns": ledger.unknowns,
        "unknownFacts": facts.unknown,
        "labelledAfterResults": facts.labelled_after_results,
        "assertionsNotRead": facts.assertions_not_read,
        "repetitions": header.plan.repetitions,
        "archiveBytes": sum({t.archive_digest: t.archive_bytes for t in ledger.tasks}.values()),
    }
