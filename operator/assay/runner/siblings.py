"""The task's containers, which live until the runner tells them to quit.

The pod ends when its last sibling does, so whatever happens, both must be told; with exit code 0, so that the
Job ends at once. In separate mode the kubelet starts the verifier only after the environment has ended.
"""

import asyncio
import logging
from pathlib import Path

from assay.runner.sandbox import SandboxClient, SandboxError, SandboxLost, SandboxNotReady

log = logging.getLogger(__name__)

_POLL_SECONDS = 5.0


class Sibling:
    """One container of the pod."""

    def __init__(self, name: str, socket: Path) -> None:
        self.name = name
        self.client = SandboxClient(socket)
        self.ready = False
        self.gone = False

    async def wait_ready(self, seconds: float) -> None:
        """Wait until the container answers. Raises SandboxNotReady."""
        await self.client.wait_ready(seconds)
        self.ready = True

    async def quit(self) -> None:
        """End the container with exit code 0. Raises SandboxError where it does not answer."""
        if self.gone:
            return
        await self.client.quit(0)
        self.gone = True
        log.info("%s was told to quit", self.name)


class Siblings:
    """The environment, unless the try only verifies, and in separate mode the verifier."""

    def __init__(self, environment: Path | None, verifier: Path | None) -> None:
        self._environment = Sibling("environment", environment) if environment else None
        self.verifier = Sibling("verifier", verifier) if verifier else None

    @property
    def environment(self) -> Sibling:
        """The agent's container. A try that only verifies has none, and nothing of it may ask for one."""
        if self._environment is None:
            raise RuntimeError("a try that only verifies has no environment")
        return self._environment

    @property
    def all(self) -> list[Sibling]:
        """In the order in which they run."""
        return [one for one in (self._environment, self.verifier) if one is not None]

    async def quit_all(self) -> None:
        """Tell every sibling to quit, also one that has yet to start. Runs until all did.

        At once, because a restarted runner cannot tell a container that has ended from one that will start.
        """
        await asyncio.gather(*(self._quit_for_certain(sibling) for sibling in self.all))

    async def close(self) -> None:
        for sibling in self.all:
            await sibling.client.close()

    async def _quit_for_certain(self, sibling: Sibling) -> None:
        while not sibling.gone:
            await self._try_quit(sibling)

    async def _try_quit(self, sibling: Sibling) -> None:
        try:
            if not sibling.ready:
                await sibling.wait_ready(_POLL_SECONDS)
            await sibling.quit()
        except SandboxNotReady:
            log.info("%s does not answer; it is told to quit when it does", sibling.name)
        except SandboxLost:
            sibling.gone = True
        except SandboxError as error:
            log.warning("%s could not be told to quit: %s", sibling.name, error)
            await asyncio.sleep(1)
