"""Nothing that the agent leaves may be read as a verdict (cases.md BAR 12).

Between agent and verifier every process of the agent is killed, and what lies where the verdict is read is
kept as evidence and removed. All is read through sandboxd, which uses no program of the container. Where a
further step follows, the agent's processes are only stopped until then: agents keep sessions across steps.
"""

import hashlib
import logging
import shutil
from pathlib import Path

from assay.runner.files import FoundFile, walk
from assay.runner.sandbox import (
    SandboxClient,
    SandboxError,
    SandboxLost,
    SandboxPathNotFound,
    SandboxTransferError,
)

log = logging.getLogger(__name__)

VERIFIER_OUTPUT = "/logs/verifier"
TESTS = "/tests"
_EMPTY = ""


class TamperGuard:
    """Watches the places of one container from which a verdict is read."""

    def __init__(self, client: SandboxClient, folder: Path, shared: bool, keep_processes: bool) -> None:
        self._client = client
        self._folder = folder
        self._shared = shared
        self._keep_processes = keep_processes
        self._phase = 0
        self._paused = False
        self._tests_before = _EMPTY
        self.suspected = False
        self.persists = False
        """What the agent left could not be removed: no verdict can be read from this container."""

    @property
    def _snapshot(self) -> Path:
        return self._folder.with_name(self._folder.name + "-tests")

    async def before_agent(self) -> None:
        """Remember what the image has in /tests, and start with an empty output folder."""
        self._phase += 1
        if await self._collect(VERIFIER_OUTPUT, self._folder / "image") is not _EMPTY:
            await self._empty_output()
        shutil.rmtree(self._folder / "image", ignore_errors=True)
        if self._shared:
            shutil.rmtree(self._snapshot, ignore_errors=True)
            self._tests_before = await self._collect(TESTS, self._snapshot)
        if self._paused:
            await self._client.resume()
            self._paused = False

    async def after_agent(self, *, last: bool) -> None:
        """Halt the agent's processes, then keep and remove what it left. Raises SandboxLost.

        After the `last` step they are ended.
        """
        if not self._keep_processes:
            await self._halt(last)
        try:
            await self._clean()
        except SandboxLost:
            raise
        except SandboxError as error:
            # No rm, no space, no process left: whatever hinders it is what the agent made of its container.
            log.warning("what the agent left could not be removed: %s", error)
            self.suspected = self.persists = True

    async def _halt(self, last: bool) -> None:
        if last:
            log.info("the agent's phase ended, %d processes killed", await self._client.end_phase())
        else:
            self._paused = True
            log.info("the agent's step ended, %d processes stopped", await self._client.pause())

    async def _clean(self) -> None:
        kept = self._folder / f"phase-{self._phase}"
        if await self._collect(VERIFIER_OUTPUT, kept / "verifier") is not _EMPTY:
            await self._found(VERIFIER_OUTPUT)
            await self._empty_output()
            self.persists |= await self._collect(VERIFIER_OUTPUT, self._folder / "after") is not _EMPTY
            shutil.rmtree(self._folder / "after", ignore_errors=True)
        if self._shared and await self._collect(TESTS, kept / "tests") != self._tests_before:
            await self._found(TESTS)
            await self._restore_tests()
        else:
            shutil.rmtree(kept / "tests", ignore_errors=True)

    async def _found(self, place: str) -> None:
        self.suspected = True
        log.warning("the agent changed %s: kept as evidence and removed", place)

    async def _empty_output(self) -> None:
        await self._run("rm", "-rf", VERIFIER_OUTPUT)
        await self._run("mkdir", "-p", VERIFIER_OUTPUT)
        await self._run("chmod", "777", VERIFIER_OUTPUT)

    async def _restore_tests(self) -> None:
        await self._run("rm", "-rf", TESTS)
        if self._tests_before is not _EMPTY:
            await self._client.upload_dir(self._snapshot, TESTS)
        self.persists |= await self._collect(TESTS, self._folder / "after") != self._tests_before
        shutil.rmtree(self._folder / "after", ignore_errors=True)

    async def _run(self, *argv: str) -> None:
        result = await self._client.exec(list(argv), user="root", timeout_seconds=60)
        if result.code:
            log.warning("%s ended with %d: %r", " ".join(argv), result.code, result.stderr[:200])

    async def _collect(self, place: str, target: Path) -> str:
        """Copy a directory out. Returns a digest over its files; the empty string where there are none."""
        try:
            await self._client.download_dir(place, target)
        except SandboxPathNotFound:
            return _EMPTY
        except SandboxTransferError as error:
            # Something is there and changes or cannot be read: not what the image had.
            log.warning("%s could not be read whole: %s", place, error)
            return "unreadable"
        digest = hashlib.sha256()
        empty = True
        for entry in walk(target):
            empty = False
            digest.update(entry.name.encode() + b"\0")
            if isinstance(entry, FoundFile):
                with entry.path.open("rb") as file:
                    digest.update(hashlib.file_digest(file, "sha256").digest())
            else:
                digest.update(entry.reason.encode())
        return _EMPTY if empty else digest.hexdigest()
