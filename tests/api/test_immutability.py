"""What must not change cannot be changed, added or removed, and the message says what to do instead."""

import json
from typing import Any

import pytest

from assay.api.evaluation_run import MUTABLE_FIELDS, EvaluationRunSpec
from tests.api import samples
from tests.api.conftest import Api, Object, RefusedError, merged

STARTED = {"startedAt": "2026-11-30T12:00:00Z"}

LEDGER_CHANGES: list[tuple[tuple[str, ...], Any]] = [
    (("benchmark", "name"), "other"),
    (("benchmark", "version"), "1.2"),
    (("digest",), "sha256:" + "b" * 64),
    (("source", "s3", "key"), "ledgers/two.jsonl"),
    (("source",), {"configMap": {"name": "other", "key": "ledger.jsonl"}}),
    (("harness", "commit"), "b" * 40),
    (("harness", "runnerImage"), None),
    (("harness",), None),
]

VARIANT_CHANGES: list[tuple[tuple[str, ...], Any]] = [
    (("displayName",), "Another"),
    (("displayName",), None),
    (("agent", "version"), "2.0"),
    (("agent", "version"), None),
    (("agent", "bundleImage"), None),
    (("agent", "arguments", "max_turns"), "51"),
    (("agent", "arguments", "prompt"), "added"),
    (("agent", "arguments", "max_turns"), None),
    (("agent", "environment"), []),
    (("models",), []),
]

RUN_CHANGES: dict[str, Any] = {
    "ledgers": [{"name": "two"}],
    "variants": [{"name": "control"}],
    "baseline": {"name": "candidate"},
    "suite": {"name": "index", "version": "2.0"},
    "repetitions": 4,
    "budget": {"usd": "501.00"},
    "priceSheet": {"digest": "sha256:" + "b" * 64, "source": {"configMap": {"name": "two", "key": "x"}}},
    "retryLimits": {"infrastructure": 2},
    "deadlines": {"pendingSeconds": 61, "uploadSeconds": 60},
    "placement": {"nodeSelector": {"pool": "other"}},
    "storage": {"s3": {"bucket": "other", "prefix": "runs/"}},
    "minCoveragePercent": 50,
    "queueName": "other",
    "reuse": {"runs": [{"name": "another"}]},
    "parallelism": 5,
    "suspend": True,
    "suspendPolicy": "Stop",
    "retry": {"unscoredOnly": 1},
    "ttlSecondsAfterFinished": 60,
}


def _aliases() -> set[str]:
    return {field.alias or name for name, field in EvaluationRunSpec.model_fields.items()}


def _optional() -> list[str]:
    return sorted(
        field.alias or name
        for name, field in EvaluationRunSpec.model_fields.items()
        if not field.is_required() and (field.alias or name) not in MUTABLE_FIELDS
    )


def test_every_field_of_a_run_has_a_case() -> None:
    assert RUN_CHANGES.keys() == _aliases() == samples.run()["spec"].keys()


@pytest.mark.parametrize(("path", "value"), LEDGER_CHANGES)
def test_a_ledger_never_changes(api: Api, path: tuple[str, ...], value: Any) -> None:
    made = api.create("ledgers", samples.ledger())
    with pytest.raises(RefusedError, match=r"spec is immutable.*create a Ledger with a new name"):
        api.replace("ledgers", merged(made, "spec", *path, value=value))


def test_a_field_cannot_be_added_to_a_ledger(api: Api) -> None:
    made = api.create("ledgers", merged(samples.ledger(), "spec", "harness", value=None))
    harness = {"repository": "https://git.example/x", "commit": "a" * 40}
    with pytest.raises(RefusedError, match="spec is immutable"):
        api.replace("ledgers", merged(made, "spec", "harness", value=harness))


@pytest.mark.parametrize(("path", "value"), VARIANT_CHANGES)
def test_a_variant_never_changes(api: Api, path: tuple[str, ...], value: Any) -> None:
    made = api.create("agentvariants", samples.variant())
    with pytest.raises(RefusedError, match=r"spec is immutable.*create an AgentVariant with a new name"):
        api.replace("agentvariants", merged(made, "spec", *path, value=value))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("displayName",), "Added"),
        (("models",), samples.variant()["spec"]["models"]),
        (("agent", "arguments"), {"a": "1"}),
    ],
)
def test_a_field_cannot_be_added_to_a_variant(api: Api, path: tuple[str, ...], value: Any) -> None:
    body = merged(samples.variant(), "spec", value={"agent": {"name": "nop"}})
    made = api.create("agentvariants", body)
    with pytest.raises(RefusedError, match="spec is immutable"):
        api.replace("agentvariants", merged(made, "spec", *path, value=value))


@pytest.mark.parametrize("plural", ["ledgers", "agentvariants"])
def test_labels_may_change(api: Api, plural: str) -> None:
    made = api.create(plural, samples.ledger() if plural == "ledgers" else samples.variant())
    changed = api.replace(plural, merged(made, "metadata", "labels", value={"team": "evals"}))
    assert changed["metadata"]["generation"] == 1


def _started(api: Api, body: Object) -> Object:
    made = api.create("evaluationruns", body)
    return api.replace_status("evaluationruns", made | {"status": STARTED})


@pytest.mark.parametrize("field", sorted(RUN_CHANGES))
def test_a_run_may_change_until_it_starts(api: Api, field: str) -> None:
    body = samples.run()
    made = api.create("evaluationruns", body)
    changed = merged(made, "spec", field, value=RUN_CHANGES[field])
    if field == "variants":
        changed["spec"]["baseline"] = {"name": "control"}
    assert api.replace("evaluationruns", changed)["spec"][field] == RUN_CHANGES[field]


@pytest.mark.parametrize("field", sorted(RUN_CHANGES.keys() - MUTABLE_FIELDS))
def test_a_started_run_does_not_change(api: Api, field: str) -> None:
    started = _started(api, samples.run())
    with pytest.raises(RefusedError, match=rf"spec\.{field} cannot change after the run has started"):
        api.replace("evaluationruns", merged(started, "spec", field, value=RUN_CHANGES[field]))


@pytest.mark.parametrize("field", [name for name in _optional() if name != "minCoveragePercent"])
def test_nothing_can_be_removed_from_a_started_run(api: Api, field: str) -> None:
    started = _started(api, samples.run())
    with pytest.raises(RefusedError, match=rf"spec\.{field} cannot change after the run has started"):
        api.replace("evaluationruns", merged(started, "spec", field, value=None))


@pytest.mark.parametrize("field", _optional())
def test_nothing_can_be_added_to_a_started_run(api: Api, field: str) -> None:
    started = _started(api, merged(samples.run(), "spec", field, value=None))
    with pytest.raises(RefusedError, match=rf"spec\.{field} cannot change after the run has started"):
        api.replace("evaluationruns", merged(started, "spec", field, value=RUN_CHANGES[field]))


@pytest.mark.parametrize("field", sorted(MUTABLE_FIELDS))
def test_what_may_change_in_a_started_run(api: Api, field: str) -> None:
    started = _started(api, samples.run())
    changed = api.replace("evaluationruns", merged(started, "spec", field, value=RUN_CHANGES[field]))
    assert changed["spec"][field] == RUN_CHANGES[field]
    removed = api.replace("evaluationruns", merged(changed, "spec", field, value=None))
    assert removed["metadata"]["generation"] > changed["metadata"]["generation"]


@pytest.mark.parametrize(
    "status",
    [{}, {"startedAt": "2026-12-01T12:00:00Z"}, {"observedGeneration": 1}],
    ids=["emptied", "moved", "removed"],
)
def test_the_start_of_a_run_is_final(api: Api, status: Object) -> None:
    started = _started(api, samples.run())
    with pytest.raises(RefusedError, match="startedAt"):
        api.replace_status("evaluationruns", started | {"status": status})


def test_the_start_cannot_be_forged_with_the_spec(api: Api) -> None:
    made = api.create("evaluationruns", samples.run() | {"status": STARTED})
    assert "status" not in made


@pytest.mark.parametrize("status", [{}, {"frozenAt": "2026-12-01T12:00:00Z"}], ids=["removed", "moved"])
def test_the_time_of_freezing_is_final(api: Api, status: Object) -> None:
    made = api.create("ledgers", samples.ledger())
    frozen = api.replace_status("ledgers", made | {"status": {"frozenAt": "2026-11-30T12:00:00Z"}})
    with pytest.raises(RefusedError, match="frozenAt never moves"):
        api.replace_status("ledgers", frozen | {"status": status})


def test_a_status_write_leaves_the_spec_alone(api: Api) -> None:
    started = _started(api, samples.run())
    forged = json.loads(json.dumps(started))
    forged["spec"]["repetitions"] = 99
    kept = api.replace_status("evaluationruns", forged)
    assert kept["spec"]["repetitions"] == 3
