"""Ledgers of the real benchmarks: what is known about them comes out, and nothing else is refused."""

import tomllib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from harbor.publisher.packager import Packager

from assay.adapters.task_folder import read_task_folder
from assay.api.ledger_build_file import LedgerBuildFile
from assay.core.dockerfile import first_that_needs_a_build, instructions
from assay.core.ledger import LedgerFile, parse_ledger, render_ledger
from assay.core.ledger_build import LedgerBuilder, LedgerRefusedError
from assay.runner.verifier_dockerfile import read_copy_only

STATED = {
    "benchmark": "real",
    "version": "1",
    "allow_unknown": ["difficulty"],
    "defaults": {
        "licence": {"value": "Apache-2.0", "source": "LICENSE", "date": "2026-01-01"},
        "difficulty": {"value": "unknown", "source": "no task states one", "date": "2026-01-01"},
    },
}
SIX = (
    "etree-xml-diff-patch",
    "anko-default-function-arguments",
    "anko-typed-variable-bindings",
    "bandit-incremental-cache-control",
    "bandit-interprocedural-taint-checks",
    "bandit-structured-nosec-directives",
)
BROKEN = ("expr-try-catch-errors", "meriyah-explicit-resource-declarations")


def frozen(folders: Iterable[Path], **stated: Any) -> LedgerFile:
    """The ledger of the folders, with a digest made up for each image name."""
    build_file = LedgerBuildFile.model_validate({**STATED, **stated})
    builder = LedgerBuilder(build_file, lambda name: f"{name}@sha256:{'1' * 64}")
    for folder in folders:
        builder.add(folder.name, read_task_folder(folder))
    made = builder.finish()
    return parse_ledger(render_ledger(made.header, made.tasks))


def upstream(dataset: Path) -> dict[str, str]:
    """The digests that a published dataset.toml pins."""
    return {task["name"]: task["digest"] for task in tomllib.loads(dataset.read_text())["tasks"]}


@pytest.fixture(scope="module")
def deepswe(datasets: Path) -> dict[str, Path]:
    return {path.parent.name: path.parent for path in (datasets / "deepswe-v1.1/tasks").glob("*/task.toml")}


@pytest.fixture(scope="module")
def qna(datasets: Path) -> LedgerFile:
    return frozen(path.parent for path in (datasets / "swe-atlas-qna").glob("*/task.toml"))


def test_deepswe_two_tasks_lack_a_file_and_are_named(deepswe: dict[str, Path]) -> None:
    with pytest.raises(LedgerRefusedError) as refused:
        frozen(deepswe.values())
    assert [(one.task, one.field) for one in refused.value.refusals] == [
        (f"datacurve/{name}", "tests/config.json") for name in BROKEN
    ]


def test_deepswe_the_others_are_89_repositories_and_96_clusters(
    deepswe: dict[str, Path], datasets: Path
) -> None:
    ledger = frozen(folder for name, folder in deepswe.items() if name not in BROKEN)
    assert len(ledger.tasks) == 111
    assert ledger.repositories == 89
    assert ledger.clusters == 96
    pinned = upstream(datasets / "deepswe-v1.1/tasks/dataset.toml")
    assert [task.id for task in ledger.tasks if pinned[task.id] == task.harbor_digest] == []


def test_deepswe_the_six_runnable_tasks_are_five_pieces_of_evidence(deepswe: dict[str, Path]) -> None:
    plan = {"resources": {"request_percent": 25, "limit_percent": 100}}
    ledger = frozen((deepswe[name] for name in SIX), include=list(SIX), plan=plan)
    assert ledger.clusters == 5
    for task in ledger.tasks:
        assert task.images.verifier == task.images.environment
        assert task.resources.cpu_millis == 2000
        assert task.timeouts.agent_seconds == 5400


def test_qna_clusters_are_those_that_the_method_counts(qna: LedgerFile) -> None:
    sizes = sorted(Counter(task.cluster for task in qna.tasks).values(), reverse=True)
    assert sizes == [26, 15, 15, 14, 10, 8, 8, 8, 7, 7, 6]


def test_qna_nine_upstream_digests_are_stale(qna: LedgerFile, datasets: Path) -> None:
    pinned = upstream(datasets / "swe-atlas-qna/dataset.toml")
    assert sum(pinned[task.id] != task.harbor_digest for task in qna.tasks) == 9


def test_harbor_computes_the_same_digest_for_every_task(deepswe: dict[str, Path]) -> None:
    ledger = frozen(folder for name, folder in deepswe.items() if name not in BROKEN)
    for task in ledger.tasks:
        folder = deepswe[task.id.removeprefix("datacurve/")]
        assert task.harbor_digest == f"sha256:{Packager.compute_content_hash(folder)[0]}"


def test_ledger_and_runner_agree_which_verifiers_need_no_build(deepswe: dict[str, Path]) -> None:
    for name, folder in deepswe.items():
        if name in BROKEN:
            continue
        dockerfile = folder / "tests/Dockerfile"
        assert first_that_needs_a_build(instructions(dockerfile.read_text())) is None
        assert len(read_copy_only(dockerfile).copies) == 4
