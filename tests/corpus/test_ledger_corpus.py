"""Ledgers of the real benchmarks: what is known about them comes out, and nothing else is refused."""

import json
import tomllib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from harbor.publisher.packager import Packager

from assay.adapters.task_folder import read_task_folder
from assay.api.ledger_build_file import LedgerBuildFile
from assay.api.ledgerfile import AssertionSource, ClusterRule
from assay.core.dockerfile import first_that_needs_a_build, instructions
from assay.core.ledger import LedgerFile, parse_ledger, render_ledger
from assay.core.ledger_build import LedgerBuilder, LedgerRefusedError
from assay.runner.verifier_dockerfile import read_copy_only
from tests.cli.conftest import run

STATED: dict[str, Any] = {
    "benchmark": "real",
    "version": "1",
    "allow_unknown": ["difficulty"],
    "defaults": {
        "oracle_kind": "tests",
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
STALE = (
    "6905333b74f22949d97ba9d8",
    "6905333b74f22949d97ba9f1",
    "6905333b74f22949d97ba9f4",
    "6905333b74f22949d97ba9f5",
    "6905333b74f22949d97baa0b",
    "6905333b74f22949d97baa15",
    "6905333b74f22949d97baa17",
    "6905333b74f22949d97baa19",
    "6905333b74f22949d97baa22",
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


def test_a_difficulty_stated_now_is_counted_as_stated_after_the_results(
    deepswe: dict[str, Path], datasets: Path
) -> None:
    """Neither data set states one, and both have published results."""
    judged = {"value": "medium", "source": "three readers", "date": "2026-11-30"}
    stated = {"defaults": STATED["defaults"] | {"difficulty": judged}, "allow_unknown": []}
    whole = (folder for name, folder in deepswe.items() if name not in BROKEN)
    ledger = frozen(whole, **stated, first_result_date="2026-05-20")
    assert (ledger.unknowns, len(ledger.labelled_after_results)) == (0, 111)
    tasks = (path.parent for path in (datasets / "swe-atlas-qna").glob("*/task.toml"))
    ledger = frozen(tasks, **stated, first_result_date="2026-04-08")
    assert (ledger.unknowns, len(ledger.labelled_after_results)) == (0, 124)


def test_deepswe_no_pair_has_near_identical_assertions_and_all_are_read(deepswe: dict[str, Path]) -> None:
    ledger = frozen(folder for name, folder in deepswe.items() if name not in BROKEN)
    rules = Counter(task.cluster_rule for task in ledger.tasks)
    assert rules[ClusterRule.NEAR_IDENTICAL_ASSERTION] == 0
    assert ledger.unread_assertions == []
    sources = Counter(task.failing_assertions.source for task in ledger.tasks if task.failing_assertions)
    assert sources[AssertionSource.NAMED_TESTS] > 100
    assert all(task.failing_assertions and task.failing_assertions.tests for task in ledger.tasks)


def test_deepswe_says_that_no_upstream_digest_matches_before_it_is_accepted(
    deepswe: dict[str, Path], datasets: Path, tmp_path: Path
) -> None:
    root = datasets / "deepswe-v1.1"
    include = sorted(set(deepswe) - set(BROKEN))
    licences = "".join(
        f'[tasks."{name}"]\nlicence = {{value = "{spdx}", source = "PROVENANCE.md", date = "2026-05-01"}}\n'
        for name, spdx in provenance(root / "PROVENANCE.md").items()
        if name in include
    )
    facts = (
        f'benchmark = "deepswe"\nversion = "1.1"\nallow_unknown = ["difficulty"]\ninclude = {include}\n'
        '[defaults]\noracle_kind = "tests"\n'
    )
    images = tmp_path / "images.json"
    images.write_text(json.dumps(image_map(deepswe.values())))
    build = (
        "ledger", "build", root / "tasks", "--build-file", tmp_path / "build.toml", "--images", images,
        "-o", tmp_path / "ledger.jsonl", "--json",
    )  # fmt: skip

    (tmp_path / "build.toml").write_text(facts + licences)
    refused = run(*build)
    assert refused.exit_code == 1
    assert (
        "0 of the 111 digests that the manifest lists for these tasks match, 111 are stale" in refused.stderr
    )
    assert not (tmp_path / "ledger.jsonl").exists()

    accept = '[upstream]\naccept_stale = {count = 111, reason = "rewritten in 8cae598"}\n'
    (tmp_path / "build.toml").write_text(facts + accept + licences)
    built = run(*build)
    assert built.exit_code == 0, built.stderr
    said = json.loads(built.stdout)
    assert (said["tasks"], said["repositories"], said["clusters"]) == (111, 89, 96)
    assert (said["upstream"]["listed"], said["upstream"]["matched"]) == (113, 0)
    assert said["unknownFacts"] == {"difficulty": 111}
    assert said["licences"]["MIT"] == 64
    assert sum(said["licences"].values()) == 111


def test_qna_names_its_nine_stale_tasks_before_they_are_accepted(datasets: Path, tmp_path: Path) -> None:
    root = datasets / "swe-atlas-qna"
    images = tmp_path / "images.json"
    images.write_text(json.dumps(image_map(path.parent for path in root.glob("*/task.toml"))))
    facts = (
        'benchmark = "swe-atlas-qna"\nversion = "1"\nallow_unknown = ["difficulty"]\n'
        '[defaults]\noracle_kind = "judge"\n'
        'licence = {value = "Apache-2.0", source = "LICENSE", date = "2026-04-08"}\n'
    )
    build = (
        "ledger", "build", root / "dataset.toml", "--build-file", tmp_path / "build.toml", "--images", images,
        "-o", tmp_path / "ledger.jsonl", "--json",
    )  # fmt: skip
    (tmp_path / "build.toml").write_text(facts)
    refused = run(*build)
    assert refused.exit_code == 1
    assert "115 of the 124 digests" in refused.stderr
    for task in STALE:
        assert f"scale-ai/task-{task}" in refused.stderr

    accept = '[upstream]\naccept_stale = {count = 9, reason = "67cca32 and 9acc18e"}\n'
    (tmp_path / "build.toml").write_text(facts + accept)
    said = json.loads(run(*build).stdout)
    assert said["upstream"]["stale"] == [f"scale-ai/task-{task}" for task in STALE]
    assert (said["tasks"], said["clusters"], said["assertionsNotRead"]) == (124, 11, 124)


def provenance(page: Path) -> dict[str, str]:
    """Licence of each task by the table of PROVENANCE.md."""
    rows = (line.strip("| \n").split("|") for line in page.read_text().splitlines() if line.count("|") == 4)
    return {cells[0].strip(): cells[2].strip() for cells in rows if not cells[0].startswith(("Task", "-"))}


def image_map(folders: Iterable[Path]) -> dict[str, str]:
    """A digest made up for each image that the tasks name."""
    settings = (tomllib.loads((folder / "task.toml").read_text()) for folder in folders)
    names = {str(one["environment"]["docker_image"]) for one in settings}
    return {name: f"{name}@sha256:{'1' * 64}" for name in names}


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
