"""A failed verdict is tried again on the stored artefacts: real runner, Harbor and sandboxd, and no agent."""

import io
import tarfile
from pathlib import Path
from typing import Any

import pytest

from assay.api.evidence import ARTIFACTS, Manifest
from assay.api.outcome import OutcomeClass
from tests.runner.attempt_pod import Deadlines
from tests.runner.conftest import MakePod
from tests.runner.gateway_double import GatewayDouble
from tests.runner.tasks import CHECK_ANSWER, TaskFolder, separate_task

GRADE = CHECK_ANSWER.format(answer="/logs/artifacts/answer.txt").removeprefix("#!/bin/bash\n")
FIRST = "case $(cat /proc/sys/kernel/hostname) in *-t1-*) {first};; esac"
"""A verifier that misbehaves in the first pod alone: a container's host has its pod's name."""


def failing_first(first: str, **files: str) -> TaskFolder:
    return separate_task(test=f"#!/bin/bash\n{FIRST.format(first=first)}\n{GRADE}", **files)


def what_is_judged(manifest: Manifest) -> dict[str, Any]:
    """What the operator puts into the next try spec."""
    (artifacts,) = [file for file in manifest.files if file.path == ARTIFACTS]
    assert manifest.result.graded_as is not None
    return {
        "tryNumber": manifest.identity.try_number,
        "podUid": manifest.pod_uid,
        "manifestDigest": f"sha256:{'5' * 64}",
        "artifactsDigest": artifacts.sha256,
        "gradedAs": manifest.result.graded_as.value,
    }


@pytest.mark.parametrize(("agent", "reward"), [("oracle", 1), ("nop", 0)])
@pytest.mark.parametrize(
    ("first", "outcome"),
    [
        ("sleep 6666", OutcomeClass.VERIFIER_TIMEOUT),
        ("exit 1", OutcomeClass.VERIFIER_CRASH),
        ("mkdir -p /logs/verifier; echo -1 > /logs/verifier/reward.txt; exit 0", OutcomeClass.VERIFIER_CRASH),
    ],
    ids=["hangs", "writes nothing", "reports its own failure"],
)
async def test_a_fresh_verifier_judges_what_the_first_one_was_given(
    make_pod: MakePod,
    gateway: GatewayDouble,
    tmp_path: Path,
    agent: str,
    reward: int,
    first: str,
    outcome: OutcomeClass,
) -> None:
    task, deadlines = failing_first(first), Deadlines(verifier=5)
    async with make_pod(task, agent, separate=True, deadlines=deadlines) as pod:
        await pod.run_to_end()
    judged = gateway.next_try()
    assert (judged.result.outcome, judged.result.reward) == (outcome, None)

    again = {"separate": True, "deadlines": deadlines, "try_number": 2}
    async with make_pod(
        task, agent, verify_only=what_is_judged(judged), folder=tmp_path / "2", **again
    ) as pod:
        codes = await pod.run_to_end()

    assert codes == [0], "the pod has a verifier and nothing else"
    manifest = gateway.manifest
    assert (manifest.result.outcome, manifest.result.reward) == (OutcomeClass.GRADED, reward)
    assert manifest.verify_only is not None
    assert manifest.verify_only.try_number == 1
    assert manifest.result.seconds.agent is None
    assert manifest.result.agent_version is None
    assert manifest.result.seconds.verifier is not None
    assert gateway.order[-1] == "manifest.json"
    assert "trial/verifier/reward.txt" in gateway.files
    assert not any(path.startswith("trial/agent/") for path in gateway.files)
    assert (pod.message.outcome, pod.message.reward) == (OutcomeClass.GRADED, reward)


async def test_artefacts_are_stored_as_they_were_also_after_a_verdict(
    make_pod: MakePod, gateway: GatewayDouble
) -> None:
    async with make_pod(separate_task(), separate=True) as pod:
        await pod.run_to_end()

    with tarfile.open(fileobj=io.BytesIO(gateway.files[ARTIFACTS])) as archive:
        answer = archive.extractfile("logs/artifacts/answer.txt")
        assert answer is not None
        assert answer.read() == b"42\n"
    assert gateway.manifest.result.graded_as is None


async def test_artefacts_that_hold_a_credential_are_not_stored_and_not_changed(
    make_pod: MakePod, gateway: GatewayDouble
) -> None:
    solve = "#!/bin/bash\necho 'key = sk-ant-api03-abcdefghijklmnop' > /app/answer.txt\n"
    task = separate_task(test="#!/bin/bash\nexit 1\n", **{"solution/solve.sh": solve})
    async with make_pod(task, separate=True) as pod:
        await pod.run_to_end()

    assert gateway.manifest.result.outcome is OutcomeClass.VERIFIER_CRASH
    assert ARTIFACTS not in gateway.files
    assert b"looks like a credential" in gateway.files["omissions.json"]
    assert b"sk-ant-" not in gateway.everything()


async def test_the_class_that_the_agent_earned_comes_with_the_verdict(
    make_pod: MakePod, gateway: GatewayDouble, tmp_path: Path
) -> None:
    task = failing_first("exit 1")
    async with make_pod(task, separate=True) as pod:
        await pod.run_to_end()
    judged = what_is_judged(gateway.next_try()) | {"gradedAs": "RefusedFallback"}
    async with make_pod(task, separate=True, verify_only=judged, folder=tmp_path / "2", try_number=2) as pod:
        await pod.run_to_end()

    result = gateway.manifest.result
    assert (result.outcome, result.reward) == (OutcomeClass.REFUSED_FALLBACK, 1)


@pytest.mark.parametrize("stored", [None, b"other bytes"], ids=["gone", "changed"])
async def test_artefacts_that_are_not_those_on_record_are_never_judged(
    make_pod: MakePod, gateway: GatewayDouble, tmp_path: Path, stored: bytes | None
) -> None:
    task = failing_first("exit 1")
    async with make_pod(task, separate=True) as pod:
        await pod.run_to_end()
    judged = what_is_judged(gateway.next_try())
    gateway.artifacts = {judged["artifactsDigest"]: stored} if stored else {}
    async with make_pod(task, separate=True, verify_only=judged, folder=tmp_path / "2", try_number=2) as pod:
        assert await pod.run_to_end() == [0]

    result = gateway.manifest.result
    assert (result.outcome, result.reward) == (OutcomeClass.SETUP_FAILED, None)
    assert "artefacts" in result.reason


async def test_the_pods_end_while_the_verifier_works_leaves_the_artefacts(
    make_pod: MakePod, gateway: GatewayDouble
) -> None:
    task = failing_first("touch /app/judging; sleep 6666")
    async with make_pod(task, separate=True, deadlines=Deadlines(verifier=120)) as pod:
        assert pod.verifier is not None
        await pod.start_runner()
        await pod.environment.start()
        assert await pod.environment.ended() == 0
        await pod.verifier.start()
        await pod.until(lambda: pod.verifier is not None and pod.verifier.has("/app/judging"))
        await pod.delete()

    result = gateway.manifest.result
    assert (result.outcome, result.graded_as) == (OutcomeClass.DISRUPTED, OutcomeClass.GRADED)
    assert ARTIFACTS in gateway.files
