"""The real sandboxd, built once, as PID 1 of pid namespaces and of containers."""

import os
import shutil
import subprocess
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from assay.runner.sandbox import SandboxClient
from tests.sandboxd.sandboxes import Container, NamespaceSandbox, Sandbox, build_rootfs

SOURCE = Path(__file__).resolve().parents[2] / "images" / "sandboxd"
READY_WITHIN = 60


@pytest.fixture(scope="session")
def sandboxd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program."""
    if os.geteuid() != 0 or shutil.which("go") is None:
        pytest.skip("needs root (pid namespaces) and Go")
    program = tmp_path_factory.mktemp("bin") / "sandboxd"
    subprocess.run(
        ["go", "build", "-trimpath", "-ldflags=-s -w -X main.version=test", "-o", program, "./cmd/sandboxd"],
        cwd=SOURCE,
        env=os.environ | {"CGO_ENABLED": "0"},
        check=True,
    )
    return program


@pytest.fixture
async def start(sandboxd: Path, tmp_path: Path) -> AsyncIterator[Callable[..., Awaitable[Sandbox]]]:
    """Starts a sandboxd in a pid namespace of its own, on this machine's file system, and connects."""
    async with AsyncExitStack() as stack:

        async def start(*options: str, connect: bool = True) -> Sandbox:
            sandbox = NamespaceSandbox(sandboxd, tmp_path / uuid.uuid4().hex[:8] / "s", options)
            stack.callback(sandbox.kill)
            await stack.enter_async_context(sandbox.client)
            if connect:
                await sandbox.client.wait_ready(READY_WITHIN)
            return sandbox

        yield start


@pytest.fixture
async def sandbox(start: Callable[..., Awaitable[Sandbox]]) -> SandboxClient:
    """A client of a running sandboxd."""
    return (await start()).client


@pytest.fixture
async def container(sandboxd: Path, tmp_path: Path) -> AsyncIterator[Callable[..., Awaitable[Container]]]:
    """Starts a sandboxd in a container with a pod's capabilities, and connects."""
    async with AsyncExitStack() as stack:

        async def start(kind: str = "busybox", **resources: Any) -> Container:
            folder = tmp_path / uuid.uuid4().hex[:8]
            build_rootfs(folder / "rootfs", kind)
            started = Container(sandboxd, folder, resources)
            stack.callback(started.kill)
            await stack.enter_async_context(started.client)
            await started.client.wait_ready(READY_WITHIN)
            return started

        yield start
