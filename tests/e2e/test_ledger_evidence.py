"""What a real run leaves proves its ledger: that oracles can tell, and that it was frozen before any call."""

import json
from pathlib import Path

import pytest

from assay.api.attempt_record import RunRecord
from assay.api.report import Report
from assay.core.ledger import LedgerFile, parse_ledger
from demo import model_server
from demo.materials import assay, image_map
from tests.e2e.bench import Bench, build_file
from tests.e2e.tasks import Task

_LIMIT = 64 << 20
PROVIDER = {
    "endpoint": model_server.ENDPOINT,
    "api": "OpenAIChat",
    "secretRef": {"name": model_server.SECRET, "key": "api-key"},
}


class Ended:
    """A run of oracle, nop and an agent with a model, and the files that stand in S3 after it."""

    def __init__(self, bench: Bench) -> None:
        model_server.start_model_server(bench.target)
        self.task = Task("proof", agent_seconds=40)
        self.ledger = bench.ledger(self.task)
        self.nop = bench.variant("nop")
        model = {"role": "main", "name": "openai/scripted/solver", "provider": PROVIDER}
        agent = bench.variant("terminus-2", models=[model])
        variants = [bench.variant("oracle"), self.nop, agent]
        self.run = bench.run(self.ledger, variants, repetitions=3, parallelism=3)
        self.status = self.run.completed(seconds=400).status
        assert self.status.report is not None
        self.folder = self.status.report.key.rpartition("/")[0]
        self._bench = bench

    def read(self, name: str) -> bytes:
        return self._bench.store.get_bytes(self._bench.bucket, f"{self.folder}/{name}", _LIMIT)


@pytest.fixture(scope="module")
def ended(bench: Bench) -> Ended:
    return Ended(bench)


def rebuilt(bench: Bench, ended: Ended, scratch: Path, test: str) -> LedgerFile:
    """The ledger of the task, built with the run's records as proof."""
    Task(ended.task.name, test=test, agent_seconds=40).write(scratch / "tasks", bench.task_image)
    (scratch / "build.toml").write_text(build_file(ended.ledger))
    (scratch / "images.json").write_text(json.dumps(image_map("examples")))
    (scratch / "attempts.jsonl").write_bytes(ended.read("attempts.jsonl"))
    stated = ("--build-file", str(scratch / "build.toml"), "--images", str(scratch / "images.json"))
    proof = ("--oracle-runs", str(scratch / "attempts.jsonl"))
    output = scratch / "ledger.jsonl"
    target = bench.target.storage
    assay(target, "ledger", "build", str(scratch / "tasks"), *stated, *proof, "--output", str(output))
    return parse_ledger(output.read_bytes())


def test_the_records_of_a_run_prove_the_oracles_of_its_tasks(
    bench: Bench, ended: Ended, tmp_path: Path
) -> None:
    ledger = rebuilt(bench, ended, tmp_path, ended.task.test)
    (line,) = ledger.tasks
    assert line.oracle is not None
    assert line.oracle.proof is not None
    assert (line.oracle.proof.solution_rewards, line.oracle.proof.no_change_rewards) == ([1.0] * 3, [0.0] * 3)
    assert ledger.without_proof == []


def test_they_prove_nothing_of_a_task_that_was_edited_since(
    bench: Bench, ended: Ended, tmp_path: Path
) -> None:
    with pytest.raises(Exception, match="a run was of other files of the task: sha256:"):
        rebuilt(bench, ended, tmp_path, f"{ended.task.test}\ntrue")


def test_the_report_shows_that_ledger_record_and_first_call_followed_each_other(
    bench: Bench, ended: Ended, tmp_path: Path
) -> None:
    report = Report.model_validate_json(ended.read("report.json"))
    (order,) = report.ledgers[0].freeze
    assert order.problems == []
    assert order.frozen_at is not None
    assert order.recorded_at is not None
    assert order.first_call_at is not None
    assert order.frozen_at <= order.recorded_at <= order.first_call_at
    assert order.recorded_digest == bench.manifests[ended.ledger]["spec"]["digest"]
    record = RunRecord.model_validate_json(ended.read("run.json"))
    assert [one.partition(":")[0] for one in record.deviations] == ["repetitions"]

    # The third party's command finds the same in the evidence itself.
    manifest = bench.manifests[ended.ledger]
    ledger = tmp_path / "ledger.jsonl"
    ledger.write_bytes(bench.store.get_bytes(bench.bucket, manifest["spec"]["source"]["s3"]["key"], _LIMIT))
    prefix = ended.folder.partition("report")[0]
    place = ("--bucket", bench.bucket, "--run", prefix, "--json")
    said = json.loads(assay(bench.target.storage, "ledger", "verify", str(ledger), *place))
    (freeze,) = [one for one in said["checks"] if one["name"] == "freeze"]
    assert freeze["holds"]
    assert f"first model call {order.first_call_at.isoformat()}" in freeze["words"]
