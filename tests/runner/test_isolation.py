"""The proof of isolation: which addresses, and when one counts as unreachable."""

import asyncio

import pytest

from assay.api.ledgerfile import NetworkMode
from assay.runner.isolation import (
    METADATA_ADDRESS,
    PUBLIC_ADDRESS,
    IsolationAbsent,
    ProbeTimes,
    connects,
    forbidden_addresses,
    probe_isolation,
)

QUICK = ProbeTimes(failed_for=0.05, limit=0.5, attempt=0.05, pause=0.005)


def test_addresses_of_a_task_without_network() -> None:
    found = forbidden_addresses(NetworkMode.NONE, "10.96.0.1:443", None)
    assert found == [METADATA_ADDRESS, "10.96.0.1:443", PUBLIC_ADDRESS]


def test_addresses_of_a_task_with_internet() -> None:
    found = forbidden_addresses(NetworkMode.INTERNET, "10.96.0.1:443", "10.96.0.10:53")
    assert found == [METADATA_ADDRESS, "10.96.0.1:443", "10.96.0.10:53"]


class Network:
    """Answers as often as it is told, then never."""

    def __init__(self, answers: int) -> None:
        self.answers = answers

    async def connect(self, address: str, timeout: float) -> bool:  # noqa: ASYNC109
        await asyncio.sleep(0.005)
        self.answers -= 1
        return self.answers >= 0


async def test_policy_that_takes_effect_late_is_waited_for() -> None:
    (probe,) = await probe_isolation(["10.0.0.1:1"], QUICK, Network(answers=5).connect)
    assert not probe.reachable
    assert probe.attempts > 5
    assert probe.failed_for_seconds >= QUICK.failed_for


async def test_no_policy() -> None:
    with pytest.raises(IsolationAbsent, match=r"10\.0\.0\.1:1 could still be reached") as caught:
        await probe_isolation(["10.0.0.1:1"], QUICK, Network(answers=10**9).connect)
    assert caught.value.probes[0].reachable


async def test_policy_that_comes_and_goes_never_counts() -> None:
    async def flickering(address: str, timeout: float) -> bool:  # noqa: ASYNC109
        await asyncio.sleep(0.03)
        return asyncio.get_running_loop().time() % 0.06 < 0.03

    with pytest.raises(IsolationAbsent):
        await probe_isolation(["10.0.0.1:1"], ProbeTimes(failed_for=0.4, limit=0.5, pause=0), flickering)


async def test_real_connections() -> None:
    async with await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0) as server:
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        assert await connects(address, 2)
    assert not await connects(address, 2)
    assert not await connects("name.invalid:443", 2)
