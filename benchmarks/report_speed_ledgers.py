"""Three ledgers of the index's size, and a suite of them, for benchmarks."""

from typing import Any

from assay.api.ledgerfile import LedgerHeader, TaskLine
from assay.core.ledger import LedgerFile, parse_ledger, render_ledger, with_line_digest

MODEL = "claude-opus-5-5"
TASKS = {"deepswe": 113, "qna": 124, "terminal-bench": 66}
QNA_CLUSTERS = (26, 15, 15, 14, 10, 8, 8, 8, 7, 7, 6)
_DIGEST = f"sha256:{'1' * 64}"

SUITE: dict[str, Any] = {
    "name": "benchmark",
    "version": "1",
    "title": "Benchmark",
    "source": "benchmarks",
    "components": {
        name: {"benchmark": name, "version": "1.0", "title": name, "tasks": tasks}
        for name, tasks in TASKS.items()
    },
    "rules": {"repetitions": 3, "refusal_reruns": 10},
    "history": [{"version": "1", "components": list(TASKS), "change": "first"}],
}


def ledgers(repetitions: int) -> dict[str, LedgerFile]:
    """The ledgers by name; QnA has its real cluster sizes."""
    return {name: _ledger(name, tasks, repetitions) for name, tasks in TASKS.items()}


def _ledger(name: str, tasks: int, repetitions: int) -> LedgerFile:
    clusters = [f"c{number - (number % 10 == 9)}" for number in range(tasks)]
    if name == "qna":
        clusters = [f"c{number}" for number, size in enumerate(QNA_CLUSTERS) for _ in range(size)]
    lines = [_task(f"{name}/task-{number:03}", number, cluster) for number, cluster in enumerate(clusters)]
    header = LedgerHeader.model_validate(
        {"benchmark": name, "version": "1.0", "task_count": tasks, "plan": {"repetitions": repetitions}}
    )
    return parse_ledger(render_ledger(header, lines))


def _task(name: str, number: int, cluster: str) -> TaskLine:
    fact = {"value": ("easy", "medium", "hard")[number % 3], "source": "benchmark", "date": "2026-01-01"}
    return with_line_digest(
        TaskLine.model_validate(
            {
                "id": name,
                "archive_digest": _DIGEST,
                "archive_bytes": 1,
                "harbor_digest": _DIGEST,
                "licence": fact,
                "difficulty": fact,
                "category": f"category-{number % 7}",
                "language": f"language-{number % 5}",
                "base_commit": "c" * 40,
                "oracle": {"kind": "tests", "digest": _DIGEST},
                "images": {"environment": f"registry.example/task@{_DIGEST}"},
                "verifier_mode": "shared",
                "network": "none",
                "resources": {},
                "timeouts": {},
                "cluster": cluster,
                "cluster_reason": "benchmark",
                "line_digest": _DIGEST,
            }
        )
    )
