"""Records that cross versions of Assay: what an older reader makes of a newer writer, docs/decisions/0011."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from assay.api.evidence import TerminationMessage
from assay.api.journal import LedgerRun
from assay.api.ledgerfile import TaskLine
from assay.api.outcome import OutcomeClass
from assay.api.tryspec import TrySpec
from assay.core.hint import read_hint
from assay.core.manifest import read_manifest
from assay.core.plan import make_plan
from assay.core.reconcile import name_of
from assay.core.record import AttemptKey, ManifestBad, ManifestFound
from assay.core.segments import JournalError, decode_segment
from assay.core.try_spec import make_try_spec
from assay.runner.settings import SettingsError, load_pod
from tests.operator_kit import builders as make
from tests.unit.journal.memory import RUN_UID
from tests.unit.journal.test_check import rewrite, written
from tests.unit.operator.test_attempt_pod import containers, render

SCHEMAS = Path(__file__).parents[1] / "fixtures"
OLDER_TRY_SPEC = json.loads((SCHEMAS / "try-spec-before-crossing-files.json").read_text())
"""What runners accept that were built before a ledger could name crossing files."""
KEY = AttemptKey("ledger", "task-a", "oracle", 0)


def try_spec(task: TaskLine | None = None) -> TrySpec:
    run, ledger = make.run_object(), make.run_ledger(tasks=[task or make.task()])
    plan = make_plan(run.spec, make.RUN_UID, [ledger], [make.run_variant()])
    (key,) = plan.attempts
    return make_try_spec(run, plan, key, 1, name_of(make.RUN_UID, key, 1))


def test_a_runner_that_a_live_run_pinned_reads_what_the_upgraded_operator_writes() -> None:
    document = json.loads(try_spec().annotation())
    jsonschema.validate(document, OLDER_TRY_SPEC)
    assert document["schemaVersion"] == 1


def test_what_is_left_out_of_a_try_spec_means_what_it_meant_to_older_runners() -> None:
    now = TrySpec.model_json_schema()
    for name, older in _objects(OLDER_TRY_SPEC).items():
        newer = _objects(now)[name]
        assert set(newer.get("required", [])) <= set(older.get("required", [])), name
        for field, was in older["properties"].items():
            assert newer["properties"][field].get("default") == was.get("default"), f"{name}.{field}"


def _objects(schema: Mapping[str, Any]) -> dict[str, Any]:
    records = {name: part for name, part in schema["$defs"].items() if "properties" in part}
    return {"TrySpec": schema, **records}


def test_a_field_that_changes_the_try_is_refused_by_name(tmp_path: Path) -> None:
    """Ignoring it would measure something else than the ledger froze."""
    document = json.loads(try_spec().annotation())
    document["task"]["frobnicate"] = ["a"]
    (tmp_path / "try.json").write_text(json.dumps(document))
    with pytest.raises(SettingsError, match=r"task\.frobnicate is not known .* a newer one wrote it"):
        load_pod({"ASSAY_TRY_SPEC": str(tmp_path / "try.json"), "POD_NAME": "p", "POD_UID": "u"})


def test_a_newer_runners_manifest_keeps_its_result() -> None:
    document = json.loads(make.found(KEY).manifest.model_dump_json())
    document["result"] |= {"energyJoules": 5}
    document["identity"] |= {"shard": 1}
    read = read_manifest(json.dumps(document).encode())
    assert isinstance(read, ManifestFound), read
    assert read.manifest == make.found(KEY).manifest


def test_a_manifest_of_a_newer_schema_says_so() -> None:
    document = json.loads(make.found(KEY).manifest.model_dump_json()) | {"schemaVersion": 2}
    read = read_manifest(json.dumps(document).encode())
    assert isinstance(read, ManifestBad)
    assert "version 2 was written by a newer Assay" in read.reason


def test_a_newer_runners_termination_message_is_still_a_hint() -> None:
    job = make.job_view(KEY)
    message = json.dumps(json.loads(make.hint(job)) | {"phase": "upload"})
    hint = read_hint(make.ended_pod(job, message=message), job.name)
    assert isinstance(hint, TerminationMessage)
    assert hint.outcome is OutcomeClass.GRADED


@pytest.mark.parametrize("line", [0, 1], ids=["header", "entry"])
def test_an_older_operator_refuses_a_newer_journal_and_loses_nothing_of_it(line: int) -> None:
    """It would hand entries on when it compacts, without what it does not know."""
    stored, _ = written(1)
    ((name, content),) = stored.items()

    def add(lines: list[bytes]) -> list[bytes]:
        lines[line] = json.dumps(json.loads(lines[line]) | {"energyJoules": 5}).encode()
        return lines

    with pytest.raises(JournalError, match=r"energyJoules is not known .* a newer one wrote it"):
        list(decode_segment(rewrite(content, add), name, RUN_UID).records())


def test_a_newer_operators_run_stays_on_its_ledgers_list() -> None:
    ledger = {"name": "l", "digest": make.DIGEST, "planDigest": make.DIGEST, "repetitions": 1}
    document = {
        "runUid": make.RUN_UID,
        "runName": "r",
        "namespace": "n",
        "ledger": ledger | {"shards": 4},
        "variants": [{"name": "v", "fingerprint": make.DIGEST}],
        "startedAt": "2026-11-30T00:00:00Z",
        "journal": "runs/j/",
    }
    assert LedgerRun.read_leniently(json.dumps(document), strict=True).run_name == "r"


def test_a_live_run_started_with_this_sandboxd_and_runner() -> None:
    """Their command lines are pinned with them: a new setting comes as an environment variable."""
    found = containers(render())
    assert found["inject"]["command"] == ["/sandboxd", "install", "/inject/environment", "/inject/verifier"]
    assert found["runner"]["command"] == ["/opt/assay/bin/python", "-m", "assay.runner", "run"]
    flags = [word for word in found["environment"]["command"] if word.startswith("--")]
    assert flags == ["--socket", "--runner-uid", "--grace"]
