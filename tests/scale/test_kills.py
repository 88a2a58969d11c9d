"""The operator is killed fifty times in one run, and nothing is lost and nothing happens twice."""

import asyncio
import os
import random
import time
from dataclasses import dataclass, field
from functools import partial

import pytest

from tests.operator_kit.cluster import Cluster, until
from tests.operator_kit.exactness import assert_exact, completed
from tests.operator_kit.fates import Script
from tests.operator_kit.process import Operator, Wishes
from tests.operator_kit.runners import Runners
from tests.scale.conftest import begin

pytestmark = pytest.mark.api

KILLS = 50
SEED = int(os.environ.get("ASSAY_CHAOS_SEED", "6"))
"""Another seed is another fifty points."""
LAST_POINT = 0.9
"""The last kill comes when this share of the tries has run: the run must outlive it."""
WHILE_STARTING_SECONDS = 3.0
WHILE_WORKING_SECONDS = 0.8


@dataclass
class Timeline:
    """What happened when, for a person to read."""

    begun: float = field(default_factory=time.monotonic)
    lines: list[str] = field(default_factory=list)

    def add(self, what: str) -> None:
        self.lines.append(f"{time.monotonic() - self.begun:7.1f} s  {what}")


@dataclass(frozen=True)
class Point:
    """When to kill: some time after so many tries have ended, or while it starts if they have already."""

    ended: int
    chance: float


def points(tries: int, chance: random.Random) -> list[Point]:
    """Fifty random points of the run's progress, in order."""
    ended = sorted(chance.sample(range(1, int(tries * LAST_POINT)), KILLS))
    return [Point(count, chance.random()) for count in ended]


async def test_fifty_kills_lose_nothing_and_repeat_nothing(
    cluster: Cluster, operator: Operator, wishes: Wishes, capsys: pytest.CaptureFixture[str]
) -> None:
    """BAR 3, at random points of a run of 300 attempts, a tenth of which fail or lose their Job or pod."""
    script = Script.of(tasks=50, variants=["oracle", "other"], repetitions=3)
    runners, timeline = Runners(cluster, script), Timeline()
    timeline.add(f"seed {SEED}; {len(script.fates)} attempts: {script.describe()}")
    await begin(wishes, script, parallelism=24)
    try:
        async with runners.working():
            for point in points(len(script.tries), random.Random(SEED)):
                await _kill_at(point, operator, runners, timeline)
            async with operator.running():
                await completed(cluster)
                timeline.add(f"complete, {runners.ended} tries have run")
        await assert_exact(cluster, runners)
        timeline.add(f"{len(script.tries)} tries in the journal, each once; all sums as in the script")
    finally:
        with capsys.disabled():
            print("", *timeline.lines, sep="\n")


async def _kill_at(point: Point, operator: Operator, runners: Runners, timeline: Timeline) -> None:
    async def reached() -> bool:
        return runners.ended >= point.ended

    early = await reached()
    process = await operator.start()
    if early:
        await asyncio.sleep(point.chance * WHILE_STARTING_SECONDS)  # a random point, not a condition
    else:
        await until(f"{point.ended} tries have ended", partial(reached), seconds=120)
        await asyncio.sleep(point.chance * WHILE_WORKING_SECONDS)
    assert process.returncode is None, "it ends when it is killed, not before"
    process.kill()
    await process.wait()
    where = "while it starts" if early else "at work"
    timeline.add(f"kill {len(operator.processes)} {where}, {runners.ended} tries have ended")
