"""The first real benchmark run: six tasks of DeepSWE v1.1, as published, by `kubectl apply`."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from assay.api.evaluation_run import EvaluationRun
from demo.commands import apply
from demo.install import ROOT, RUN_NAMESPACE
from tests.e2e.bench import Bench, RunHandle, unique
from tests.e2e.evidence import TryEvidence

TASKS = (
    "etree-xml-diff-patch",
    "anko-default-function-arguments",
    "anko-typed-variable-bindings",
    "bandit-incremental-cache-control",
    "bandit-interprocedural-taint-checks",
    "bandit-structured-nosec-directives",
)
SHARED = Path(os.environ.get("ASSAY_SHARED") or ROOT.parent / "shared")
DATASETS = SHARED / "datasets"

pytestmark = [
    pytest.mark.corpus,
    pytest.mark.skipif(not (DATASETS / "unpack").exists(), reason=f"needs the data sets in {DATASETS}"),
    pytest.mark.timeout(1800),
]

# The tasks ask for 2 CPUs, as many as a small node has: a quarter is requested, all of it may be used.
BUILD_FILE = """
benchmark = "deepswe"
version = "1.1"
allow_unknown = ["difficulty"]
include = {include}

[upstream]
accept_stale = {{ count = 6, reason = "dataset.toml was rewritten without its tasks in 8cae598" }}

[plan]
resources = {{ request_percent = 25, limit_percent = 100 }}

[defaults]
oracle_kind = "tests"
licence = {{ value = "Apache-2.0", source = "PROVENANCE.md of the data set", date = "2026-01-01" }}
"""


@pytest.fixture(scope="module")
def ledger(bench: Bench, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("deepswe")
    subprocess.run([str(DATASETS / "unpack"), str(folder)], check=True, capture_output=True)
    tasks = folder / "deepswe-v1.1" / "tasks"
    name = unique("deepswe-six")
    facts = BUILD_FILE.format(include=json.dumps(TASKS))
    apply([bench.publish(name, tasks, facts, image_groups=("deepswe",))])
    return name


@pytest.fixture(scope="module")
def variants(bench: Bench) -> tuple[str, str]:
    return bench.variant("oracle"), bench.variant("nop")


@pytest.fixture(scope="module")
def handle(bench: Bench, ledger: str, variants: tuple[str, str]) -> RunHandle:
    return bench.run(ledger, variants)


@pytest.fixture(scope="module")
def completed(handle: RunHandle) -> EvaluationRun:
    return handle.completed(seconds=1700)


@pytest.fixture(scope="module")
def evidence(handle: RunHandle, completed: EvaluationRun) -> list[TryEvidence]:
    return handle.evidence()


def test_oracle_solves_six_of_six_and_nop_none(completed: EvaluationRun, variants: tuple[str, str]) -> None:
    oracle, nop = variants
    rows = {row.variant: row for row in completed.status.vector}
    assert (rows[oracle].score_strict, rows[oracle].score_valid, rows[oracle].valid) == ("1", "1", 6)
    assert (rows[nop].score_strict, rows[nop].score_valid, rows[nop].valid) == ("0", "0", 6)
    assert rows[oracle].coverage == rows[nop].coverage == "1"


def test_two_tasks_on_one_commit_are_one_cluster(bench: Bench, ledger: str, completed: EvaluationRun) -> None:
    counts = bench.verified(ledger)["status"]["counts"]
    assert (counts["tasks"], counts["clusters"]) == (6, 5)


def test_every_attempt_left_complete_evidence(evidence: list[TryEvidence], variants: tuple[str, str]) -> None:
    seen = {
        (left.manifest.identity.task.rpartition("/")[2], left.manifest.identity.variant) for left in evidence
    }
    assert seen == {(task, variant) for task in TASKS for variant in variants}
    for left in evidence:
        left.assert_complete()


def test_the_image_that_ran_is_recorded_by_digest(handle: RunHandle, evidence: list[TryEvidence]) -> None:
    ran = {record.pod_uid: dict(record.images) for record in handle.recorded()}
    for left in evidence:
        stated = json.loads(left.text("try-spec.json"))["task"]["environmentImage"].rpartition("@")[2]
        assert stated.startswith("sha256:")
        assert ran[left.manifest.pod_uid]["environment"].rpartition("@")[2] == stated


def test_the_rewards_are_the_verifiers_own(evidence: list[TryEvidence], variants: tuple[str, str]) -> None:
    oracle, _ = variants
    for left in evidence:
        expected = 1.0 if left.manifest.identity.variant == oracle else 0.0
        assert left.manifest.result.reward == expected
        assert left.manifest.result.outcome == "Graded"
        assert any(path.startswith("trial/verifier/") for path in left.paths())


def test_the_namespace_holds_the_whole_story(handle: RunHandle, completed: EvaluationRun) -> None:
    assert handle.namespace == RUN_NAMESPACE
    assert completed.status.attempts.recorded == completed.status.attempts.planned == 12
