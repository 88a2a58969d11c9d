"""However a pod ends, its evidence is left, its containers end, and no agent runs twice."""

import asyncio
import signal

import pytest

from assay.api.evidence import ARTIFACTS
from assay.api.outcome import OutcomeClass
from assay.runner import state
from tests.runner.attempt_pod import AttemptPod, Deadlines
from tests.runner.conftest import MakePod
from tests.runner.gateway_double import GatewayDouble
from tests.runner.tasks import TaskFolder, separate_task, shared_task

SLOW_VERIFIER = "#!/bin/bash\ntouch /tmp/verifying\nsleep 6666\n"


async def _started(pod: AttemptPod) -> None:
    await pod.start_runner()
    await pod.environment.start()


async def test_deletion_before_a_container_started(make_pod: MakePod, gateway: GatewayDouble) -> None:
    async with make_pod(separate_task(), separate=True) as pod:
        await pod.start_runner()
        await pod.until(lambda: (pod.work / ".assay" / "pid").exists())
        await pod.terminate()

    assert gateway.manifest.result.outcome is OutcomeClass.DISRUPTED
    assert pod.message.outcome is OutcomeClass.DISRUPTED


async def test_signal_at_the_very_start(make_pod: MakePod) -> None:
    async with make_pod(shared_task()) as pod:
        await pod.start_runner()
        assert pod.runner is not None
        # Any moment will do once Python handles signals; before that a container is simply gone.
        await pod.until(lambda: "SigCgt:\t0000000000004" in _status(pod) or pod.runner_output != "")
        pod.runner.send_signal(signal.SIGTERM)
        assert await pod.runner.wait() == 0


def _status(pod: AttemptPod) -> str:
    from pathlib import Path

    assert pod.runner is not None
    return Path(f"/proc/{pod.runner.pid}/status").read_text()


async def test_deletion_during_setup(make_pod: MakePod, gateway: GatewayDouble) -> None:
    async with make_pod(shared_task(), "tests.runner.agents:SlowSetup") as pod:
        await _started(pod)
        await pod.until(lambda: pod.environment.has("/app/setting-up"))
        await pod.delete()

    assert gateway.manifest.result.outcome is OutcomeClass.DISRUPTED
    assert await pod.environment.ended() == 0


async def test_deletion_while_the_agent_works(make_pod: MakePod, gateway: GatewayDouble) -> None:
    async with make_pod(separate_task(), "tests.runner.agents:Sleeper", separate=True) as pod:
        await _started(pod)
        await pod.until(lambda: pod.environment.has("/app/working"))
        await pod.delete()

    result = gateway.manifest.result
    assert (result.outcome, result.reward) == (OutcomeClass.DISRUPTED, None)
    assert {"trial/result.json", "trial/trial.log", "runner.log"} <= set(gateway.files)
    assert gateway.files["trial/artifacts/logs/artifacts/answer.txt"] == b"42\n"
    assert await pod.environment.ended() == 0


async def test_deletion_while_the_verifier_works(make_pod: MakePod, gateway: GatewayDouble) -> None:
    async with make_pod(separate_task(test=SLOW_VERIFIER), separate=True) as pod:
        await pod.start_runner()
        siblings = asyncio.create_task(pod.main_containers())
        assert pod.verifier is not None
        verifier = pod.verifier
        await pod.until(lambda: verifier.process is not None and verifier.has("/tmp/verifying"))
        await pod.delete()
        assert await siblings == [0, 0]

    result = gateway.manifest.result
    assert (result.outcome, result.reward) == (OutcomeClass.DISRUPTED, None)
    assert gateway.files["trial/artifacts/logs/artifacts/answer.txt"] == b"42\n"


async def test_deletion_during_upload_keeps_the_verdict(make_pod: MakePod, gateway: GatewayDouble) -> None:
    gateway.refuse_uploads = -1
    async with make_pod(shared_task()) as pod:
        await _started(pod)
        await pod.until(lambda: "outcome Graded" in pod.runner_output)
        deletion = asyncio.create_task(pod.delete())
        gateway.refuse_uploads = 0
        await deletion

    assert (gateway.manifest.result.outcome, gateway.manifest.result.reward) == (OutcomeClass.GRADED, 1)


async def test_plain_sigterm_without_prestop(make_pod: MakePod, gateway: GatewayDouble) -> None:
    async with make_pod(shared_task(), "tests.runner.agents:Sleeper") as pod:
        await _started(pod)
        await pod.until(lambda: pod.environment.has("/app/working"))
        await pod.terminate()
        assert await pod.environment.ended() == 0

    assert gateway.manifest.result.outcome is OutcomeClass.DISRUPTED


@pytest.mark.parametrize("task", [shared_task(), separate_task()], ids=["shared", "separate"])
async def test_restarted_runner_runs_nothing(
    make_pod: MakePod, gateway: GatewayDouble, task: TaskFolder
) -> None:
    separate = "separate" in task.toml
    async with make_pod(task, "tests.runner.agents:Sleeper", separate=separate) as pod:
        await pod.start_runner()
        siblings = asyncio.create_task(pod.main_containers())
        await pod.until(lambda: pod.environment.process is not None and pod.environment.has("/app/working"))
        pod.kill_runner()
        assert pod.runner is not None
        await pod.runner.wait()
        await pod.start_runner()
        codes = await siblings
        await pod.terminate()

    assert codes == [0] * (2 if separate else 1)
    result = gateway.manifest.result
    assert (result.outcome, result.reward) == (OutcomeClass.RUNNER_RESTARTED, None)
    assert pod.message.outcome is OutcomeClass.RUNNER_RESTARTED
    # The proof that the first runner took is not lost.
    assert b"169.254.169.254:80" in gateway.files["isolation.json"]
    assert {"trial/trial.log", "trial/config.json", "runner.log"} <= set(gateway.files)


async def test_runner_killed_before_it_had_begun_runs_the_try_once(
    make_pod: MakePod, gateway: GatewayDouble
) -> None:
    """Nothing of the agent can have run: the restarted container is the first that does anything."""
    async with make_pod(shared_task()) as pod:
        await pod.start_runner()
        pod.kill_runner()
        assert pod.runner is not None
        await pod.runner.wait()
        assert not (pod.work / ".assay" / "started.json").exists(), "it was too late to be early"
        assert await pod.run_to_end() == [0]

    assert (gateway.manifest.result.outcome, gateway.manifest.result.reward) == (OutcomeClass.GRADED, 1)


async def test_runner_that_restarts_while_the_verifier_works(
    make_pod: MakePod, gateway: GatewayDouble
) -> None:
    """The environment is gone for good by then; the verifier must be told all the same."""
    async with make_pod(separate_task(test=SLOW_VERIFIER), separate=True) as pod:
        await pod.start_runner()
        siblings = asyncio.create_task(pod.main_containers())
        assert pod.verifier is not None
        verifier = pod.verifier
        await pod.until(lambda: verifier.process is not None and verifier.has("/tmp/verifying"))
        pod.kill_runner()
        assert pod.runner is not None
        await pod.runner.wait()
        await pod.start_runner()
        assert await siblings == [0, 0]
        await pod.terminate()

    result = gateway.manifest.result
    assert (result.outcome, result.graded_as) == (OutcomeClass.RUNNER_RESTARTED, OutcomeClass.GRADED)
    assert result.seconds.agent is not None, "what the agent's phase came to is known all the same"
    assert ARTIFACTS in gateway.files
    assert gateway.files["trial/artifacts/logs/artifacts/answer.txt"] == b"42\n"


async def test_runner_that_restarts_after_its_manifest_repeats_its_message(
    make_pod: MakePod, gateway: GatewayDouble
) -> None:
    async with make_pod(shared_task()) as pod:
        await pod.run_to_end()
        message = pod.message
        manifest = gateway.manifest_bytes
        (pod.folder / "termination-log").unlink()
        await pod.start_runner()
        await pod.until(lambda: (pod.folder / "termination-log").exists())
        await pod.terminate()

    assert pod.message == message
    assert message.outcome is OutcomeClass.GRADED
    assert gateway.manifest_bytes == manifest


async def test_uploads_are_repeated_until_the_storage_is_back(
    make_pod: MakePod, gateway: GatewayDouble
) -> None:
    gateway.refuse_uploads = 4
    async with make_pod(shared_task()) as pod:
        await pod.run_to_end()

    assert gateway.manifest.result.outcome is OutcomeClass.GRADED
    assert {file.path for file in gateway.manifest.files} == set(gateway.files)


async def test_storage_that_never_comes_back(make_pod: MakePod, gateway: GatewayDouble) -> None:
    """cases.md BAR 11: no manifest, and no claim of success."""
    gateway.refuse_uploads = -1
    async with make_pod(shared_task(), deadlines=Deadlines(upload=2)) as pod:
        codes = await pod.run_to_end()

    assert codes == [0]
    assert gateway.manifest_bytes is None
    assert (pod.message.outcome, pod.message.manifest) == (OutcomeClass.ARTIFACTS_PARTIAL, None)
    assert "S3 is away" in pod.message.reason


async def test_more_evidence_than_time_costs_no_verdict(make_pod: MakePod, gateway: GatewayDouble) -> None:
    gateway.hangs_on = "trial/agent/"
    async with make_pod(shared_task(), deadlines=Deadlines(upload=2)) as pod:
        await pod.run_to_end()

    assert gateway.manifest.result.outcome is OutcomeClass.GRADED
    assert "trial/agent/" in gateway.files["omissions.json"].decode()
    assert "runner.log" in gateway.files


async def test_gateway_that_does_not_exist(make_pod: MakePod, gateway: GatewayDouble) -> None:
    gateway.url = "http://127.0.0.1:1"
    async with make_pod(separate_task(), separate=True, deadlines=Deadlines(setup=2, upload=2)) as pod:
        codes = await pod.run_to_end()

    assert codes == [0, 0]
    assert pod.message.outcome is OutcomeClass.ARTIFACTS_PARTIAL


async def test_unusable_try_spec_ends_the_pod_with_a_reason(make_pod: MakePod) -> None:
    async with make_pod(shared_task()) as pod:
        spec = pod.folder / "try.json"
        spec.write_text(spec.read_text().replace('"verifierMode": "shared"', '"verifierMode": "sometimes"'))
        codes = await pod.run_to_end()

    assert codes == [0]
    assert pod.message.outcome is OutcomeClass.SETUP_FAILED
    assert "task.verifierMode" in pod.message.reason


def test_a_cut_evidence_log_is_read_as_far_as_it_is_whole(tmp_path_factory: pytest.TempPathFactory) -> None:
    from assay.api.evidence import EvidenceFile

    folder = tmp_path_factory.mktemp("state")
    first = state.RunnerState(folder)
    assert first.claim()
    file = EvidenceFile(path="runner.log", size=3, sha256=f"sha256:{'0' * 64}")
    first.acknowledge(file)
    with (folder / "evidence.jsonl").open("a") as log:
        log.write('{"path": "trial/resu')

    second = state.RunnerState(folder)
    assert not second.claim()
    assert second.acknowledged() == {"runner.log": file}
    assert second.started_at == first.started_at
