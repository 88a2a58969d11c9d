"""Pods made of real sandboxd in namespaces; they need root, as the local cluster does."""

import contextlib
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from tests.runner.attempt_pod import AttemptPod, attempt_pod
from tests.runner.containers import ROOT
from tests.runner.gateway_double import GatewayDouble, serving
from tests.runner.network import PodNetwork, pod_network
from tests.runner.tasks import TaskFolder

MakePod = Callable[..., AbstractAsyncContextManager[AttemptPod]]


@pytest.fixture(scope="session")
def sandboxd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The real binary, built by the Go toolchain whose cache makes a second build a matter of a second."""
    if os.geteuid() != 0:
        pytest.skip("containers need root: namespaces, mounts")
    if shutil.which("go") is None:
        pytest.skip("no Go toolchain to build sandboxd with")
    binary = tmp_path_factory.mktemp("sandboxd") / "sandboxd"
    subprocess.run(
        ["go", "build", "-o", str(binary), "./cmd/sandboxd"],
        cwd=ROOT / "images" / "sandboxd",
        env=os.environ | {"CGO_ENABLED": "0"},
        check=True,
    )
    return binary


@pytest.fixture
async def network() -> AsyncIterator[PodNetwork]:
    async with pod_network() as network:
        yield network


@pytest.fixture
async def gateway(network: PodNetwork) -> AsyncIterator[GatewayDouble]:
    async with serving(GatewayDouble(), network.listen()) as gateway:
        yield gateway


@pytest.fixture
def make_pod(sandboxd: Path, network: PodNetwork, gateway: GatewayDouble, tmp_path: Path) -> MakePod:
    """Makes the test's attempt pod for a task; its arguments are AttemptPod's."""

    @contextlib.asynccontextmanager
    async def make(task: TaskFolder, agent: str = "oracle", **arguments: Any) -> AsyncIterator[AttemptPod]:
        spec = {"name": agent, **arguments.pop("agent_fields", {})}
        async with attempt_pod(
            folder=arguments.pop("folder", tmp_path),
            binary=sandboxd,
            network_namespace=network,
            gateway=gateway,
            task=task,
            agent=spec,
            **arguments,
        ) as pod:
            yield pod

    return make
