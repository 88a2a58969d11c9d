"""What the environments of these tests share: a command as Harbor wants it, and a Dockerfile carried out."""

import asyncio
import os
import shutil
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from harbor.environments.base import ExecResult

from assay.core.dockerfile import Copied, copied, instructions


async def run_command(
    argv: Sequence[str], timeout_sec: float | None, env: Mapping[str, str] | None = None
) -> ExecResult:
    """Run a program; it and its session are killed when the time is up or the call is cancelled."""
    process = await asyncio.create_subprocess_exec(
        *argv,
        env=env,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(timeout_sec):
            out, err = await process.communicate()
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        raise
    code = -1 if process.returncode is None else process.returncode
    return ExecResult(
        stdout=out.decode(errors="replace"), stderr=err.decode(errors="replace"), return_code=code
    )


async def carry_out(
    dockerfile: Path, inside: Callable[[str], Path], run: Callable[[str], Awaitable[ExecResult]]
) -> None:
    """Carry out COPY and RUN of a Dockerfile; its base and the base's packages are there already.

    Args:
        inside: Where a path of the container lies on this machine.
        run: Runs a command in the container.
    """
    for one in instructions(await asyncio.to_thread(dockerfile.read_text)):
        if copy := copied(one):
            await asyncio.to_thread(_copy, dockerfile.parent, copy, inside)
        elif one.word == "RUN" and not one.rest.startswith("apt-get"):
            done = await run(one.rest)
            assert done.return_code == 0, done


def _copy(context: Path, copy: Copied, inside: Callable[[str], Path]) -> None:
    for name in copy.sources:
        source, target = context / name, inside(copy.target)
        if source.is_dir():
            shutil.copytree(source, target, dirs_exist_ok=True)
            continue
        place = target / source.name if copy.into_folder else target
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, place)
