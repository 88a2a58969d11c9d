"""Builds the pinned tools into the cache, once a machine."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from localcluster.errors import ClusterError
from localcluster.toolset import BUILD_FLAGS, Tool

#: A build that prints nothing for this long looks hung.
REPORT_EVERY_S = 15.0


def ensure(tools: Sequence[Tool], console: Console) -> dict[str, Path]:
    """Builds what the cache does not have; returns the folder of each tool's binaries.

    Raises ClusterError when Go is absent or too old, or when a build fails.
    """
    missing = [tool for tool in tools if not tool.directory().is_dir()]
    if missing:
        minutes = max(1, round(sum(tool.seconds for tool in missing) / 60))
        console.print(
            f"Building {', '.join(tool.name for tool in missing)} from source "
            f"into {missing[0].directory().parent}: about {minutes} min on two idle cores, once a machine."
        )
    for position, tool in enumerate(missing, 1):
        with _locked(tool):
            # Another process may have built it while this one waited for the lock.
            if not tool.directory().is_dir():
                _build(tool, f"[{position}/{len(missing)}] {tool.name}", console)
    return {tool.name: tool.directory() for tool in tools}


@contextmanager
def _locked(tool: Tool) -> Iterator[None]:
    home = tool.directory().parent
    home.mkdir(parents=True, exist_ok=True)
    with (home / f"{tool.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build(tool: Tool, title: str, console: Console) -> None:
    target = tool.directory()
    for stale in target.parent.glob(f"{target.name}.tmp-*"):
        shutil.rmtree(stale)
    scratch = Path(tempfile.mkdtemp(prefix=f"{target.name}.tmp-", dir=target.parent))
    try:
        _compile(tool, scratch, title, console)
        for built, known in tool.rename.items():
            (scratch / built).rename(scratch / known)
        scratch.chmod(0o755)
        scratch.rename(target)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _compile(tool: Tool, into: Path, title: str, console: Console) -> None:
    environment = os.environ | {"CGO_ENABLED": "0", "GOFLAGS": "", "GOWORK": "off"}
    packages = tool.packages()
    total = _count_packages(tool, packages, environment)
    command = ["go", "build", "-v", *BUILD_FLAGS, "-ldflags", tool.link_flags(), "-o", f"{into}/", *packages]
    started = shown = time.monotonic()
    with subprocess.Popen(
        command, cwd=tool.source, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout
        output: list[str] = []
        for line in process.stdout:
            output.append(line.rstrip())
            if time.monotonic() - shown > REPORT_EVERY_S:
                shown = time.monotonic()
                console.print(f"{title}: {len(output)} of at most {total} packages, {shown - started:.0f} s")
    if process.returncode:
        tail = "\n".join(output[-15:])
        raise ClusterError(f"building {tool.name} failed in {tool.source}:\n{tail}")
    console.print(f"{title}: built in {time.monotonic() - started:.0f} s")


def _count_packages(tool: Tool, packages: list[str], environment: dict[str, str]) -> int:
    listed = subprocess.run(
        ["go", "list", "-mod=readonly", "-deps", *packages],
        cwd=tool.source, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if listed.returncode:
        raise ClusterError(f"fetching the sources of {tool.name} failed:\n{listed.stderr.strip()[-2000:]}")
    return len(listed.stdout.splitlines())
