"""A cluster of the tests' own, beside whatever else runs on the machine."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from localcluster.cluster import INSIDE, Cluster, find
from localcluster.layout import CHECKOUT, Layout, Profile


@dataclass
class Machine:
    """Runs `python -m localcluster` with a cluster folder, as a user would."""

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)

    def run(
        self, *arguments: str, environment: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        variables = (
            os.environ | {"ASSAY_CLUSTER_DIR": str(self.folder)} | self.environment | dict(environment or {})
        )
        return subprocess.run(
            [sys.executable, "-m", "localcluster", *arguments],
            cwd=CHECKOUT,
            env=variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def succeed(self, *arguments: str) -> str:
        """The standard output of a command that must end with status 0."""
        done = self.run(*arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def fail(self, *arguments: str) -> str:
        """What a command that must not end with status 0 says."""
        done = self.run(*arguments)
        assert done.returncode not in {0, -9}, done.stdout + done.stderr
        return done.stderr

    def inside(self, *command: str) -> str:
        return self.succeed("shell", "--", *command)

    def layout(self, profile: Profile = Profile.NODE) -> Layout:
        return Layout(Path(os.path.realpath(self.folder / profile)))

    def cluster(self, profile: Profile = Profile.NODE) -> Cluster:
        cluster = find(self.layout(profile))
        assert cluster
        return cluster


@pytest.fixture(scope="session")
def needs_root() -> None:
    if os.geteuid() != 0:
        pytest.skip("a node needs root")
    if INSIDE in os.environ:
        pytest.skip("these tests start clusters of their own and cannot run inside one")


@pytest.fixture(scope="session")
def machine(needs_root: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A cluster that is up; a test that harms it brings it up again."""
    machine = Machine(tmp_path_factory.mktemp("cluster"))
    try:
        machine.succeed("up")
        yield machine
    finally:
        machine.succeed("down", "--purge")


def eventually(condition: Callable[[], bool], within_s: float = 60.0) -> None:
    """Waits for a condition. Raises AssertionError when it has not become true."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "the condition did not become true"
        time.sleep(0.1)
