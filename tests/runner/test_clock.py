"""A node's clock is set by hours while a try runs: nothing ends early or late, and no figure shows it."""

import asyncio
from pathlib import Path

import pytest

from assay.api.outcome import OutcomeClass
from tests.runner.attempt_pod import AttemptPod, Deadlines
from tests.runner.conftest import MakePod
from tests.runner.gateway_double import GatewayDouble
from tests.runner.tasks import CHECK_ANSWER, separate_task, shared_task

AN_HOUR = 3600
UNTIL_TOLD = "until [ -e {place} ]; do sleep 0.1; done\n"
SOLVE = f"#!/bin/bash\ntouch /app/working\n{UNTIL_TOLD.format(place='/app/go')}echo 42 > /app/answer.txt\n"
ENDLESS = "#!/bin/bash\necho 42 > /app/answer.txt\ntouch /app/working\nsleep 6666\n"


class Clock:
    """The wall clock of a runner's process: libfaketime adds what a file says to it, the steady one stays."""

    def __init__(self, folder: Path) -> None:
        libraries = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
        if not libraries:
            pytest.skip("no libfaketime to set a clock with: python -m localcluster deps tests")
        self._file = folder / "clock"
        self.set("+0")
        self.environment = {
            "LD_PRELOAD": str(libraries[0]),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "NO_FAKE_STAT": "1",
        }

    def set(self, by: str) -> None:
        """Set it off from the true time, e.g. by `+3h`."""
        written = self._file.with_suffix(".new")
        written.write_text(by)
        written.replace(self._file)


@pytest.fixture
def clock(tmp_path: Path) -> Clock:
    return Clock(tmp_path)


async def _at_work(pod: AttemptPod) -> None:
    await pod.until(lambda: pod.environment.process is not None and pod.environment.has("/app/working"))


async def test_a_clock_that_jumps_forth_and_back_changes_nothing(
    make_pod: MakePod, gateway: GatewayDouble, clock: Clock
) -> None:
    test = f"#!/bin/bash\ntouch /tmp/verifying\n{UNTIL_TOLD.format(place='/tmp/go')}"
    test += CHECK_ANSWER.format(answer="/logs/artifacts/answer.txt")
    task = separate_task(test=test, **{"solution/solve.sh": SOLVE})
    async with make_pod(task, separate=True, environment_variables=clock.environment) as pod:
        await pod.start_runner()
        siblings = asyncio.create_task(pod.main_containers())
        await _at_work(pod)
        clock.set("+30h")
        pod.environment.touch("/app/go")
        verifier = pod.verifier
        assert verifier is not None
        await pod.until(lambda: verifier.process is not None and verifier.has("/tmp/verifying"))
        clock.set("-50h")
        verifier.touch("/tmp/go")
        assert await siblings == [0, 0]
        await pod.terminate()

    result = gateway.manifest.result
    assert (result.outcome, result.reward, result.agent_timed_out) == (OutcomeClass.GRADED, 1, False)
    _no_figure_shows_it(gateway)


async def test_an_agent_has_its_time_although_the_clock_was_set_back(
    make_pod: MakePod, gateway: GatewayDouble, clock: Clock
) -> None:
    task = shared_task(**{"solution/solve.sh": ENDLESS})
    arguments = {"deadlines": Deadlines(agent=5), "environment_variables": clock.environment}
    async with make_pod(task, **arguments) as pod:
        await pod.start_runner()
        siblings = asyncio.create_task(pod.main_containers())
        await _at_work(pod)
        clock.set("-50h")
        assert await siblings == [0]
        await pod.terminate()

    result = gateway.manifest.result
    # By the wall clock it would have had two days more; that it failed, it would have done before it began.
    assert (result.outcome, result.reward, result.agent_timed_out) == (OutcomeClass.GRADED, 1, True)
    _no_figure_shows_it(gateway)


def _no_figure_shows_it(gateway: GatewayDouble) -> None:
    result = gateway.manifest.result
    seconds = {name: value for name, value in result.seconds if value is not None}
    assert {"setup", "agent", "verifier", "trial", "upload"} <= set(seconds)
    seconds["total"] = (result.finished_at - result.started_at).total_seconds()
    assert all(0 <= value < AN_HOUR for value in seconds.values()), seconds


def test_the_fixture_clock_is_the_one_that_a_runner_sees(clock: Clock) -> None:
    """Else the tests above would pass with any clock."""
    import subprocess
    import sys
    import time

    clock.set("+30h")
    print_both = "import time; print(time.time(), time.monotonic())"
    told = subprocess.run(
        [sys.executable, "-c", print_both], env=clock.environment, capture_output=True, text=True, check=True
    )
    wall, steady = map(float, told.stdout.split())
    assert wall - time.time() > 29 * AN_HOUR
    assert abs(steady - time.monotonic()) < AN_HOUR
