"""A failed verdict is tried again on the stored artefacts, also by an operator that has but the journal."""

import json

import pytest

from assay.api.attempt_record import AttemptRecord
from assay.api.evidence import ARTIFACTS, EvidenceFile, PhaseSeconds
from assay.api.labels import VERIFIES
from assay.api.outcome import OutcomeClass
from tests.api_operator.conftest import Operator, Wishes
from tests.operator_kit.cluster import Cluster, try_spec, until
from tests.operator_kit.journal import recorded

pytestmark = pytest.mark.api

LIMIT = 1 << 20
DIGEST = f"sha256:{'7' * 64}"
CROSSED = EvidenceFile(path=ARTIFACTS, size=1024, sha256=DIGEST)


async def test_an_operator_that_starts_anew_has_the_artefacts_judged(
    cluster: Cluster, operator: Operator, wishes: Wishes
) -> None:
    await wishes.ledger()
    await wishes.variant()
    await wishes.run()
    process = await operator.start()
    (first,) = await cluster.live_pods("run", 1)
    process.kill()
    await process.wait()
    await cluster.finish(
        first, OutcomeClass.VERIFIER_TIMEOUT, None, files=[CROSSED], graded_as=OutcomeClass.GRADED
    )

    async with operator.running():
        (second,) = await cluster.live_pods("run", 1)
        assert [one["name"] for one in second["spec"]["containers"]] == ["verifier"]
        judged = try_spec(second).verify_only
        assert judged is not None
        assert (judged.try_number, judged.artifacts_digest) == (1, DIGEST)
        assert judged.pod_uid == first["metadata"]["uid"]

        async def first_is_recorded() -> bool:
            return len(await recorded(cluster)) == 1

        await until("the first try is durable", first_is_recorded)
        (job,) = [one for one in await cluster.jobs("run") if VERIFIES in one["metadata"]["annotations"]]
        await cluster.delete_job(job["metadata"]["name"])  # by hand, and it leaves nothing
        await cluster.gone(f"/api/v1/namespaces/{cluster.namespace}/pods/{second['metadata']['name']}")

    async with operator.running():
        (again,) = await cluster.live_pods("run", 1)
        assert try_spec(again).verify_only == judged, "the journal alone says what is to be judged"
        await cluster.finish(again, reward=1.0, seconds=PhaseSeconds(verifier=2.0))
        await cluster.condition("evaluationruns", "run", "Complete", "True", "AllRecorded")

    status = (await cluster.get("evaluationruns", "run"))["status"]
    (row,) = status["vector"]
    assert (row["scoreStrict"], row["agentSeconds"]["mean"]) == ("1", "1")
    key = f"{status['report']['key'].rpartition('/')[0]}/attempts.jsonl"
    lines = cluster.store.get_bytes(status["report"]["bucket"], key, LIMIT).splitlines()
    *_, graded = [AttemptRecord.model_validate(json.loads(line)) for line in lines]
    assert (graded.retained, graded.verifies, graded.reward) == (True, 1, 1.0)
    assert (graded.tokens.output, graded.seconds.agent, graded.seconds.verifier) == (10, 1.0, 2.0)
    assert await cluster.jobs("run") == []
