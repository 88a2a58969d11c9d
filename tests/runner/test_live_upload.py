"""What an agent did leaves the pod while it works (issue 3: evidence streamed out, manifest last)."""

from assay.api.outcome import OutcomeClass
from tests.runner.conftest import MakePod
from tests.runner.gateway_double import GatewayDouble
from tests.runner.tasks import separate_task, shared_task

DIARY = "trial/agent/diary.log"
SO_FAR = b"read the task\ntried [scrubbed:anthropic]\n"
OFTEN = {"ASSAY_LIVE_UPLOAD_SECONDS": "1"}


async def test_a_lost_node_leaves_what_the_agent_did(make_pod: MakePod, gateway: GatewayDouble) -> None:
    async with make_pod(
        separate_task(), "tests.runner.agents:Diarist", separate=True, environment_variables=OFTEN
    ) as pod:
        await pod.start_runner()
        await pod.environment.start()
        await pod.until(lambda: DIARY in gateway.files and "trial/trial.log" in gateway.files)
        pod.kill_runner()
        pod.environment.kill()
        await pod.environment.ended()

    assert gateway.manifest_bytes is None
    assert gateway.files[DIARY] == SO_FAR
    assert b"sk-ant-" not in gateway.everything()


async def test_the_last_version_takes_the_place_of_the_first(
    make_pod: MakePod, gateway: GatewayDouble
) -> None:
    async with make_pod(shared_task(), "tests.runner.agents:Diarist", environment_variables=OFTEN) as pod:
        await pod.start_runner()
        await pod.environment.start()
        await pod.until(lambda: DIARY in gateway.files)
        assert gateway.files[DIARY] == SO_FAR
        pod.environment.touch("/app/go-on")
        await pod.environment.ended()
        await pod.terminate()

    assert (gateway.manifest.result.outcome, gateway.manifest.result.reward) == (OutcomeClass.GRADED, 1)
    assert gateway.order[-1] == "manifest.json"
    assert gateway.files[DIARY] == SO_FAR + b"now [scrubbed:anthropic]\n"
    assert {file.path: file.size for file in gateway.manifest.files}[DIARY] == len(gateway.files[DIARY])


async def test_what_a_container_that_died_had_written_is_in_the_manifest(
    make_pod: MakePod, gateway: GatewayDouble
) -> None:
    async with make_pod(shared_task(), "tests.runner.agents:Diarist", environment_variables=OFTEN) as pod:
        await pod.start_runner()
        await pod.environment.start()
        await pod.until(lambda: DIARY in gateway.files)
        pod.environment.kill()
        await pod.environment.ended()
        await pod.until(lambda: "outcome " in pod.runner_output)
        await pod.terminate()

    assert gateway.manifest.result.outcome is OutcomeClass.INFRA_START
    assert DIARY in {file.path for file in gateway.manifest.files}
