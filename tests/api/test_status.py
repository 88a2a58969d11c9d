"""Nothing that the operator writes into a status is lost, and kubectl understands it."""

import json
from datetime import timedelta
from typing import Any

import pytest

from assay.api.agent_variant import AgentVariant, AgentVariantStatus, VariantCondition, VariantReason
from assay.api.conditions import with_condition
from assay.api.evaluation_run import EvaluationRun
from assay.api.evaluation_run_status import EvaluationRunStatus, RunCondition, RunReason
from assay.api.ledger_resource import (
    Ledger,
    LedgerCondition,
    LedgerCounts,
    LedgerReason,
    LedgerStatus,
    ValueCount,
)
from assay.api.resource import StatusPart, status_document, status_patch
from tests.api import samples
from tests.api.conftest import Api, RefusedError, kubectl, merged


def _written(api: Api, plural: str, body: dict[str, Any], status: StatusPart) -> dict[str, Any]:
    made = api.create(plural, body)
    return api.replace_status(plural, made | {"status": status_document(status)})


def test_the_largest_status_of_a_run_is_kept_whole(api: Api) -> None:
    status = samples.largest_status()
    kept = _written(api, "evaluationruns", samples.run(), status)
    assert kept["status"] == status_document(status)
    read = EvaluationRun.parse(api.get("evaluationruns", kept["metadata"]["name"]))
    assert read.status == status


def test_the_largest_run_is_small_enough_for_etcd_and_kubectl(api: Api) -> None:
    body = samples.largest_run()
    # What `kubectl apply` adds.
    body["metadata"]["annotations"] = {
        "kubectl.kubernetes.io/last-applied-configuration": json.dumps(body, separators=(",", ":"))
    }
    kept = _written(api, "evaluationruns", body, samples.largest_status())
    del kept["metadata"]["managedFields"]
    assert len(json.dumps(kept, separators=(",", ":")).encode()) < 128 * 1024


def test_a_full_status_of_a_ledger_is_kept_whole(api: Api) -> None:
    conditions, _ = with_condition(
        [], LedgerCondition.VERIFIED, True, LedgerReason.DIGEST_MATCHES, generation=1, now=samples.NOW
    )
    status = LedgerStatus(
        observed_generation=1,
        conditions=conditions,
        observed_digest=samples.DIGEST,
        frozen_at=samples.NOW,
        counts=LedgerCounts(
            tasks=6,
            clusters=5,
            repositories=3,
            licences=[ValueCount(value="Apache-2.0", tasks=6)],
            difficulties=[ValueCount(value="unknown", tasks=6)],
            unknowns=6,
        ),
    )
    kept = _written(api, "ledgers", samples.ledger(), status)
    assert kept["status"] == status_document(status)
    assert Ledger.parse(kept).status == status


def test_what_falls_away_from_a_status_is_gone_at_any_depth(api: Api) -> None:
    full = samples.largest_status()
    assert full.resolved is not None
    less = full.model_copy(
        update={
            "resolved": full.resolved.model_copy(update={"images": None}),
            "report": None,
            "completed_at": None,
            "vector": full.vector[:1],
        }
    )
    name = _written(api, "evaluationruns", samples.run(), full)["metadata"]["name"]
    kept = api.merge_status("evaluationruns", name, status_patch(full, less))
    assert kept["status"] == status_document(less)


def test_a_ledger_that_is_verified_no_more_says_nothing_of_its_tasks(api: Api) -> None:
    counts = LedgerCounts(tasks=6, clusters=5, repositories=3, unknowns=6)
    verified = LedgerStatus(observed_generation=1, observed_digest=samples.DIGEST, counts=counts)
    name = _written(api, "ledgers", samples.ledger(), verified)["metadata"]["name"]
    lost = LedgerStatus(observed_generation=1)
    kept = api.merge_status("ledgers", name, status_patch(verified, lost))
    assert kept["status"] == status_document(lost)


def test_a_full_status_of_a_variant_is_kept_whole(api: Api) -> None:
    conditions, _ = with_condition(
        [], VariantCondition.ACCEPTED, True, VariantReason.FINGERPRINTED, generation=1, now=samples.NOW
    )
    status = AgentVariantStatus(observed_generation=1, conditions=conditions, fingerprint=samples.DIGEST)
    kept = _written(api, "agentvariants", samples.variant(), status)
    assert kept["status"] == status_document(status)
    assert AgentVariant.parse(kept).status == status


def test_a_condition_is_there_once(api: Api) -> None:
    conditions, _ = with_condition(
        [], RunCondition.COMPLETE, False, RunReason.ATTEMPTS_OUTSTANDING, generation=1, now=samples.NOW
    )
    status = EvaluationRunStatus(conditions=conditions * 2)
    with pytest.raises(RefusedError, match="Duplicate value"):
        _written(api, "evaluationruns", samples.run(), status)


def test_kubectl_can_wait_for_a_run(api: Api) -> None:
    conditions, _ = with_condition(
        [], RunCondition.COMPLETE, True, RunReason.ALL_RECORDED, generation=1, now=samples.NOW
    )
    kept = _written(api, "evaluationruns", samples.run(), EvaluationRunStatus(conditions=conditions))
    said = kubectl(
        "wait", "-n", api.namespace, "--for=condition=Complete", "--timeout=20s",
        f"evalrun/{kept['metadata']['name']}",
    )  # fmt: skip
    assert "condition met" in said


def test_kubectl_get_tells_how_far_a_run_is_how_good_and_what_it_does(api: Api) -> None:
    conditions, _ = with_condition(
        [], RunCondition.COMPLETE, False, RunReason.ATTEMPTS_OUTSTANDING, generation=1, now=samples.NOW
    )
    conditions, _ = with_condition(
        conditions, RunCondition.PROGRESSING, True, RunReason.RUNNING, generation=1, now=samples.NOW
    )
    scores = "b 61.1% n=18/18, a 50.0% n=17/18"
    status = samples.largest_status().model_copy(update={"conditions": conditions, "scores": scores})
    kept = _written(api, "evaluationruns", samples.run(), status)
    heading, row = kubectl("get", "evalrun", "-n", api.namespace, kept["metadata"]["name"]).splitlines()
    assert heading.split() == ["NAME", "COMPLETE", "RECORDED", "PLANNED", "SCORES", "WHY", "AGE"]
    assert row.split()[1:4] == ["False", "99000", "100000"]
    assert f"{scores}   Running" in row


def test_the_transition_time_survives_a_round_trip(api: Api) -> None:
    conditions, _ = with_condition(
        [], RunCondition.SUSPENDED, False, RunReason.NOT_SUSPENDED, generation=1, now=samples.NOW
    )
    kept = _written(api, "evaluationruns", samples.run(), EvaluationRunStatus(conditions=conditions))
    read = EvaluationRun.parse(kept).status.conditions
    again, changed = with_condition(
        read,
        RunCondition.SUSPENDED,
        False,
        RunReason.NOT_SUSPENDED,
        generation=2,
        now=samples.NOW + timedelta(hours=1),
    )
    assert not changed
    assert again[0].last_transition_time == samples.NOW
    assert again[0].observed_generation == 2


def test_a_spec_that_a_newer_schema_allows_is_not_half_read() -> None:
    body = merged(samples.run(), "spec", "turbo", value=1)
    body["metadata"]["namespace"] = "evals"
    with pytest.raises(ValueError, match="turbo"):
        EvaluationRun.parse(body)
