"""Whole tries: real runner, real Harbor, real sandboxd."""

import asyncio
import json
from pathlib import Path

import pytest

from assay.api.outcome import OutcomeClass
from tests.runner.attempt_pod import Deadlines
from tests.runner.conftest import MakePod
from tests.runner.gateway_double import GatewayDouble
from tests.runner.network import PodNetwork
from tests.runner.tasks import separate_task, shared_task, stepped_task


@pytest.mark.parametrize(("agent", "reward"), [("oracle", 1), ("nop", 0)])
@pytest.mark.parametrize("separate", [False, True], ids=["shared", "separate"])
async def test_reference_solution_scores_1_and_no_change_0(
    make_pod: MakePod, gateway: GatewayDouble, agent: str, reward: int, separate: bool
) -> None:
    task = separate_task() if separate else shared_task()
    async with make_pod(task, agent, separate=separate) as pod:
        codes = await pod.run_to_end()

    assert codes == [0] * (2 if separate else 1)
    result = gateway.manifest.result
    assert (result.outcome, result.reward) == (OutcomeClass.GRADED, reward)
    assert result.harness.commit == "0123abc"
    assert result.agent_version == "1.0.0"
    assert result.model_calls is None
    assert not any(probe.reachable for probe in result.isolation)
    assert (pod.message.outcome, pod.message.reward) == (OutcomeClass.GRADED, reward)
    assert pod.message.job_name == "tiny-r0-t1"


async def test_evidence_is_complete_and_manifest_comes_last(
    make_pod: MakePod, gateway: GatewayDouble
) -> None:
    async with make_pod(separate_task(), separate=True) as pod:
        await pod.run_to_end()

    assert gateway.order[-1] == "manifest.json"
    assert {file.path for file in gateway.manifest.files} == set(gateway.files)
    assert {
        "try-spec.json",
        "isolation.json",
        "runner.log",
        "trial/result.json",
        "trial/trial.log",
        "trial/agent/oracle.txt",
        "trial/verifier/reward.txt",
        "trial/artifacts/logs/artifacts/answer.txt",
    } <= set(gateway.files)
    assert json.loads(gateway.files["trial/result.json"])["verifier_result"]["rewards"] == {"reward": 1.0}
    assert b"tiny-r0-t1" in gateway.files["runner.log"]


async def test_every_step_of_a_task_is_judged(make_pod: MakePod, gateway: GatewayDouble) -> None:
    async with make_pod(stepped_task()) as pod:
        await pod.run_to_end()

    result = gateway.manifest.result
    assert (result.outcome, result.reward) == (OutcomeClass.GRADED, 1)
    assert result.seconds.agent is not None
    assert {"trial/steps/first/verifier/reward.txt", "trial/steps/second/verifier/reward.txt"} <= set(
        gateway.files
    )


async def test_a_session_lives_through_the_steps_and_judges_none(
    make_pod: MakePod, gateway: GatewayDouble
) -> None:
    async with make_pod(stepped_task(), "tests.runner.agents:SessionKeeper") as pod:
        await pod.run_to_end()

    result = gateway.manifest.result
    assert (result.outcome, result.reward) == (OutcomeClass.GRADED, 0.5)
    assert "tamperSuspected" in result.flags
    assert gateway.files["trial/steps/first/verifier/reward.txt"] == b"0\n"
    assert gateway.files["trial/steps/second/verifier/reward.txt"] == b"1\n"


async def test_copy_only_verifier_whose_image_the_ledger_names(
    make_pod: MakePod, gateway: GatewayDouble
) -> None:
    image = "example.test/task:1"
    async with make_pod(separate_task(), separate=True, verifier_image=image) as pod:
        await pod.run_to_end()

    assert (gateway.manifest.result.outcome, gateway.manifest.result.reward) == (OutcomeClass.GRADED, 1)


async def test_ledger_may_ask_for_a_separate_verifier_where_the_task_shares(
    make_pod: MakePod, gateway: GatewayDouble
) -> None:
    task = shared_task()
    task.toml = task.toml.replace("[task]", 'artifacts = ["/app/answer.txt"]\n[task]')
    async with make_pod(task, separate=True) as pod:
        codes = await pod.run_to_end()

    assert codes == [0, 0]
    assert (gateway.manifest.result.outcome, gateway.manifest.result.reward) == (OutcomeClass.GRADED, 1)


async def test_agent_that_is_late_is_still_judged(make_pod: MakePod, gateway: GatewayDouble) -> None:
    async with make_pod(shared_task(), "tests.runner.agents:Sleeper", deadlines=Deadlines(agent=2)) as pod:
        await pod.run_to_end()

    result = gateway.manifest.result
    assert (result.outcome, result.reward) == (OutcomeClass.GRADED, 1)
    assert result.agent_timed_out
    assert result.exception_type == "AgentTimeoutError"


async def test_planted_reward_and_background_writer_do_not_count(
    make_pod: MakePod, gateway: GatewayDouble
) -> None:
    async with make_pod(shared_task(), "tests.runner.agents:Tamperer") as pod:
        await pod.run_to_end()

    result = gateway.manifest.result
    assert (result.outcome, result.reward) == (OutcomeClass.GRADED, 0)
    assert "tamperSuspected" in result.flags
    # Its writer may have been killed between emptying the file and writing to it.
    assert gateway.files["tampered/phase-1/verifier/reward.txt"] in (b"1\n", b"")
    assert gateway.files["tampered/phase-1/tests/conftest.py"] == b"import pytest\n"


async def test_a_link_in_place_of_the_verifiers_output_does_not_count(
    make_pod: MakePod, gateway: GatewayDouble
) -> None:
    async with make_pod(shared_task(), "tests.runner.agents:LinkTamperer") as pod:
        await pod.run_to_end()

    result = gateway.manifest.result
    assert (result.outcome, result.reward) == (OutcomeClass.GRADED, 0)


async def test_planted_reward_that_cannot_be_removed_earns_nothing(
    make_pod: MakePod, gateway: GatewayDouble
) -> None:
    async with make_pod(shared_task(), "tests.runner.agents:StubbornTamperer") as pod:
        await pod.run_to_end()

    result = gateway.manifest.result
    assert (result.outcome, result.reward) == (OutcomeClass.TAMPERED, None)
    assert gateway.files["tampered/phase-1/verifier/reward.txt"] == b"1\n"


@pytest.mark.parametrize(("keep", "reward"), [(False, 0), (True, 1)])
async def test_agents_processes_live_on_only_where_the_task_says_so(
    make_pod: MakePod, gateway: GatewayDouble, keep: bool, reward: int
) -> None:
    late = '#!/bin/bash\nrm -f /app/answer.txt; sleep 1; [ "$(cat /app/answer.txt)" = 42 ]; echo $((1 - $?)) '
    metadata = "[metadata]\nkeep_agent_processes = true\n" if keep else ""
    task = shared_task(test=f"{late}> /logs/verifier/reward.txt\n", extra_toml=metadata)
    async with make_pod(task, "tests.runner.agents:Server") as pod:
        await pod.run_to_end()

    assert gateway.manifest.result.reward == reward


async def test_agent_that_removes_its_own_folder_is_judged(make_pod: MakePod, gateway: GatewayDouble) -> None:
    async with make_pod(shared_task(test="#!/bin/bash\n"), "tests.runner.agents:Remover") as pod:
        await pod.run_to_end()

    assert gateway.manifest.result.exception_type not in ("SandboxRequestError", "AssertionError")
    assert gateway.manifest.result.outcome is not OutcomeClass.INFRA_START


@pytest.mark.parametrize(
    ("test", "outcome", "words"),
    [
        ("echo -1 > /logs/verifier/reward.txt", OutcomeClass.VERIFIER_CRASH, "-1"),
        ("echo '{\"reward\": true}' > /logs/verifier/reward.json", OutcomeClass.INVALID_RESULT, "True"),
        (
            'echo \'{"reward": 1, "num_unscored_must_have": 2}\' > /logs/verifier/reward.json',
            OutcomeClass.JUDGE_INCOMPLETE,
            "2 must-have rubrics unanswered",
        ),
        (
            "cd /logs/verifier; echo 1 > reward.txt; echo '{\"reward\": 0}' > reward.json",
            OutcomeClass.INVALID_RESULT,
            "reward.json says 0",
        ),
        (
            "echo 1 > /logs/verifier/reward.txt; touch -d '2 hours ago' /logs/verifier/reward.txt",
            OutcomeClass.INVALID_RESULT,
            "older",
        ),
    ],
)
async def test_bad_verdicts(
    make_pod: MakePod, gateway: GatewayDouble, test: str, outcome: OutcomeClass, words: str
) -> None:
    async with make_pod(shared_task(test=f"#!/bin/bash\n{test}\n")) as pod:
        await pod.run_to_end()

    result = gateway.manifest.result
    assert (result.outcome, result.reward) == (outcome, None)
    assert words in result.reason


async def test_verifier_that_is_late(make_pod: MakePod, gateway: GatewayDouble) -> None:
    task = separate_task(test="#!/bin/bash\necho 1 > /logs/verifier/reward.txt\nsleep 6666\n")
    async with make_pod(task, separate=True, deadlines=Deadlines(verifier=2)) as pod:
        await pod.run_to_end()

    result = gateway.manifest.result
    assert (result.outcome, result.reward) == (OutcomeClass.VERIFIER_TIMEOUT, None)


async def test_late_agent_and_late_verifier_are_both_seen(make_pod: MakePod, gateway: GatewayDouble) -> None:
    task = shared_task(test="#!/bin/bash\nsleep 6666\n")
    deadlines = Deadlines(agent=2, verifier=2)
    async with make_pod(task, "tests.runner.agents:Sleeper", deadlines=deadlines) as pod:
        await pod.run_to_end()

    result = gateway.manifest.result
    assert result.outcome is OutcomeClass.VERIFIER_TIMEOUT
    assert result.agent_timed_out


@pytest.mark.parametrize("separate", [False, True], ids=["shared", "separate"])
async def test_failed_setup_ends_the_pod_in_order(
    make_pod: MakePod, gateway: GatewayDouble, separate: bool
) -> None:
    task = separate_task() if separate else shared_task()
    async with make_pod(task, "tests.runner.agents:FailingSetup", separate=separate) as pod:
        codes = await pod.run_to_end()

    # In separate mode the verifier starts all the same, and is told to quit.
    assert codes == [0] * (2 if separate else 1)
    result = gateway.manifest.result
    assert (result.outcome, result.exception_phase) == (OutcomeClass.SETUP_FAILED, "setup")
    assert "tmux is not in the image" in result.reason


async def test_slow_setup(make_pod: MakePod, gateway: GatewayDouble) -> None:
    async with make_pod(shared_task(), "tests.runner.agents:SlowSetup", deadlines=Deadlines(setup=3)) as pod:
        await pod.run_to_end()

    assert gateway.manifest.result.outcome is OutcomeClass.SETUP_FAILED
    assert "AgentSetupTimeoutError" in gateway.manifest.result.reason


async def test_another_version_of_the_agent_is_refused(make_pod: MakePod, gateway: GatewayDouble) -> None:
    async with make_pod(shared_task(), agent_fields={"version": "9.9.9"}) as pod:
        await pod.run_to_end()

    assert gateway.manifest.result.outcome is OutcomeClass.SETUP_FAILED
    assert "9.9.9" in gateway.manifest.result.reason


async def test_unknown_agent(make_pod: MakePod, gateway: GatewayDouble) -> None:
    async with make_pod(shared_task(), "no-such-agent") as pod:
        await pod.run_to_end()

    assert gateway.manifest.result.outcome is OutcomeClass.SETUP_FAILED
    assert "no-such-agent" in gateway.manifest.result.reason


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"environment/docker-compose.yaml": "services: {}\n"}, "several containers"),
        ({"tests/Dockerfile": "FROM x\nRUN pip install pytest\n"}, "needs a build"),
    ],
)
async def test_tasks_that_a_pod_cannot_run_are_refused_before_the_agent(
    make_pod: MakePod, gateway: GatewayDouble, files: dict[str, str], words: str
) -> None:
    async with make_pod(separate_task(**files), separate=True) as pod:
        codes = await pod.run_to_end()

    assert codes == [0, 0]
    assert gateway.manifest.result.outcome is OutcomeClass.SETUP_FAILED
    assert words in gateway.manifest.result.reason
    assert gateway.manifest.result.seconds.agent is None


async def test_pod_with_more_network_than_the_task_wants_is_refused(
    make_pod: MakePod, gateway: GatewayDouble
) -> None:
    async with make_pod(separate_task(), separate=True, network="internet") as pod:
        await pod.run_to_end()

    assert gateway.manifest.result.outcome is OutcomeClass.SETUP_FAILED
    assert "network_mode 'no-network'" in gateway.manifest.result.reason


async def test_agent_never_starts_while_a_forbidden_address_answers(
    make_pod: MakePod, gateway: GatewayDouble, network: PodNetwork
) -> None:
    listener = network.listen()
    async with await asyncio.start_server(lambda reader, writer: writer.close(), sock=listener):
        forbidden = f"127.0.0.1:{listener.getsockname()[1]}"
        variables = {"ASSAY_FORBIDDEN_ADDRESS": forbidden}
        async with make_pod(separate_task(), separate=True, environment_variables=variables) as pod:
            codes = await pod.run_to_end()

    assert codes == [0, 0]
    result = gateway.manifest.result
    assert result.outcome is OutcomeClass.ISOLATION_ABSENT
    assert forbidden in result.reason
    assert [probe.address for probe in result.isolation if probe.reachable] == [forbidden]
    assert not any(path.startswith("trial/") for path in gateway.files)


async def test_archive_that_is_not_the_frozen_one_is_never_extracted(
    make_pod: MakePod, gateway: GatewayDouble
) -> None:
    task = shared_task()
    gateway.archives[task.digest] = shared_task(test="#!/bin/bash\n# easier\n").archive()
    async with make_pod(task) as pod:
        await pod.run_to_end()

    assert gateway.manifest.result.outcome is OutcomeClass.LEDGER_MISMATCH
    assert not (pod.work / "task").exists()


async def test_archive_that_the_gateway_lacks(make_pod: MakePod, gateway: GatewayDouble) -> None:
    async with make_pod(shared_task()) as pod:
        gateway.archives.clear()
        await pod.run_to_end()

    assert gateway.manifest.result.outcome is OutcomeClass.SETUP_FAILED
    assert "UnknownArchive" in gateway.manifest.result.reason


@pytest.mark.parametrize("pinned", [True, False])
async def test_ledger_pin_in_the_runners_image(
    make_pod: MakePod, gateway: GatewayDouble, tmp_path: Path, pinned: bool
) -> None:
    (tmp_path / "ledger.pin").write_text(f"sha256:{('1' if pinned else '9') * 64}\n")
    async with make_pod(shared_task()) as pod:
        await pod.run_to_end()

    result = gateway.manifest.result
    assert result.outcome is (OutcomeClass.GRADED if pinned else OutcomeClass.LEDGER_MISMATCH)
    assert result.harness.ledger_pin == f"sha256:{('1' if pinned else '9') * 64}"
    assert "PinExternal" not in result.flags


async def test_what_an_agent_leaves_is_kept_scrubbed_and_never_followed(
    make_pod: MakePod, gateway: GatewayDouble
) -> None:
    async with make_pod(shared_task(), "tests.runner.agents:Hoarder") as pod:
        await pod.run_to_end()

    assert gateway.manifest.result.outcome is OutcomeClass.GRADED
    folder = "trial/artifacts/logs/artifacts"
    assert b"sk-ant-" not in gateway.everything()
    assert b"AKIA" not in gateway.everything()
    assert b"root:x:0:0" not in gateway.everything()
    assert gateway.files[f"{folder}/secrets.txt"] == b"key [scrubbed:anthropic] and [scrubbed:aws]\n"
    assert gateway.files[f"{folder}/new%0Aline%5C%25%FF"] == b"x"


async def test_container_that_dies_is_not_the_agents_zero(make_pod: MakePod, gateway: GatewayDouble) -> None:
    async with make_pod(shared_task(), "tests.runner.agents:Sleeper") as pod:
        await pod.start_runner()
        await pod.environment.start()
        await pod.until(lambda: pod.environment.has("/app/working"))
        pod.environment.kill()
        await pod.environment.ended()
        await pod.until(lambda: "outcome " in pod.runner_output)
        await pod.terminate()

    result = gateway.manifest.result
    assert (result.outcome, result.reward) == (OutcomeClass.INFRA_START, None)
