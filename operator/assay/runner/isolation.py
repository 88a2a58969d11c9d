"""Proof that the pod is isolated, taken before the agent starts.

A NetworkPolicy takes effect some time after the first container runs, and some clusters ignore it. So each
address that must not be reachable is tried until it has failed without a break for a second.
"""

import asyncio
import contextlib
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from assay.api.evidence import IsolationProbe
from assay.api.ledgerfile import NetworkMode

METADATA_ADDRESS = "169.254.169.254:80"
"""Instance metadata of every large cloud: the usual way to a node's credentials."""
PUBLIC_ADDRESS = "1.1.1.1:443"
"""An address on the internet that answers, tried where the task has no network."""

Connect = Callable[[str, float], Awaitable[bool]]


class IsolationAbsent(RuntimeError):
    """An address that must not be reachable was reachable for too long."""

    def __init__(self, message: str, probes: list[IsolationProbe]) -> None:
        super().__init__(message)
        self.probes = probes


@dataclass(frozen=True, slots=True)
class ProbeTimes:
    """Seconds: how long an address must have failed, by when, one attempt, the pause between two."""

    failed_for: float = 1.0
    limit: float = 15.0
    attempt: float = 1.0
    pause: float = 0.05


def forbidden_addresses(network: NetworkMode, api_server: str | None, configured: str | None) -> list[str]:
    """`host:port` of everything that must not be reachable from an attempt pod."""
    addresses = [METADATA_ADDRESS, *([api_server] if api_server else [])]
    if configured:
        addresses.append(configured)
    elif network is NetworkMode.NONE:
        addresses.append(PUBLIC_ADDRESS)
    return list(dict.fromkeys(addresses))


async def connects(address: str, timeout: float) -> bool:  # noqa: ASYNC109
    """Whether a TCP connection to `host:port` can be opened within `timeout` seconds."""
    host, _, port = address.rpartition(":")
    try:
        async with asyncio.timeout(timeout):
            _, writer = await asyncio.open_connection(host.strip("[]"), int(port))
    except (OSError, TimeoutError, socket.gaierror):
        return False
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return True


async def probe_isolation(
    addresses: Sequence[str], times: ProbeTimes = ProbeTimes(), connect: Connect = connects
) -> list[IsolationProbe]:
    """Try every address until each has failed for long enough.

    Returns one record an address. Raises IsolationAbsent, naming the addresses, where one was still reachable
    at the limit.
    """
    probes = list(await asyncio.gather(*(_probe(address, times, connect) for address in addresses)))
    reachable = [probe.address for probe in probes if probe.reachable]
    if reachable:
        raise IsolationAbsent(
            f"{', '.join(reachable)} could still be reached {times.limit:g} s after the pod started: no "
            "NetworkPolicy is enforced here; use a network plugin that enforces them",
            probes,
        )
    return probes


async def _probe(address: str, times: ProbeTimes, connect: Connect) -> IsolationProbe:
    begin = time.monotonic()
    failing_since: float | None = None
    attempts = 0
    while True:
        attempt_began = time.monotonic()
        attempts += 1
        reached = await connect(address, times.attempt)
        now = time.monotonic()
        if reached:
            failing_since = None
        elif failing_since is None:
            failing_since = attempt_began
        failed_for = now - failing_since if failing_since is not None else 0.0
        if failed_for >= times.failed_for or now - begin >= times.limit:
            return IsolationProbe(
                address=address,
                reachable=failed_for < times.failed_for,
                attempts=attempts,
                failed_for_seconds=round(failed_for, 3),
            )
        await asyncio.sleep(times.pause)
