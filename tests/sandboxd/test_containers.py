"""sandboxd in containers with other root file systems, and against a root agent."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from assay.runner.sandbox import SandboxRequestError
from tests.sandboxd.sandboxes import Container

pytestmark = pytest.mark.sandbox
type StartContainer = Callable[..., Awaitable[Container]]

MIB = 1024 * 1024


async def test_an_alpine_like_container_has_sh(container: StartContainer) -> None:
    client = (await container("busybox")).client
    result = await client.exec("echo $0; id -un; id -G; echo $HOME", user="agent")
    assert result.stdout.decode().splitlines() == ["/bin/sh", "agent", "1000 29", "/home/agent"]
    result = await client.exec("setsid sleep 1000 & sleep 1001", timeout_seconds=1)
    assert result.timed_out
    assert (await client.stat()).processes == 0


async def test_a_container_without_a_shell_runs_programs(container: StartContainer, tmp_path: Path) -> None:
    client = (await container("bare")).client
    with pytest.raises(SandboxRequestError, match="neither bash nor sh; only an argument vector"):
        await client.exec("echo hello")
    await client.upload_bytes(b"hello\n", "/made/here/file")
    assert (await client.exec(["cat", "/made/here/file"], user="0")).stdout == b"hello\n"
    assert (await client.exec(["cat", "/made/here/file"], user="1234")).stdout == b"hello\n"
    with pytest.raises(SandboxRequestError, match='user: "agent" is neither'):
        await client.exec(["cat"], user="agent")
    await client.download_dir("/made", tmp_path / "back")
    assert (tmp_path / "back/here/file").read_bytes() == b"hello\n"
    assert await client.end_phase() == 0


async def test_root_cannot_look_into_pid_1_or_change_it(container: StartContainer) -> None:
    client = (await container()).client
    for command in (
        ["cat", "/proc/1/fd/3"],
        ["cat", "/proc/1/mem"],
        ["ls", "/proc/1/root/"],
        ["cat", "/proc/1/environ"],
    ):
        result = await client.exec(command)
        assert b"Permission denied" in result.stderr, command
    assert (
        await client.exec("kill -9 1; kill -STOP 1; kill -9 -1; echo still here")
    ).stdout == b"still here\n"


async def test_a_root_agent_cannot_reach_the_verifiers_sandboxd(container: StartContainer) -> None:
    environment, verifier = await container(), await container()
    program, socket = verifier.program_folder / "sandboxd", verifier.socket_folder / "s"
    before = (program.read_bytes(), program.stat(), socket.stat().st_ino)
    attack = """
    rm -rf /assay/bin/sandboxd /assay/bin /assay/sock/s
    mv /assay/bin /assay/gone
    echo evil > /assay/bin/sandboxd
    chmod 777 /assay/bin/sandboxd
    umount -l /assay/bin
    mount -o remount,rw /assay/bin
    mount --bind /tmp /assay/bin
    ln -s /assay/sock/../../verifier/s /assay/sock/s
    cp /bin/busybox /assay/sock/sandboxd
    : > /proc/1/exe
    """
    result = await environment.client.exec(attack)
    assert result.code != 0
    assert (
        program.read_bytes(),
        program.stat().st_mtime_ns,
        program.stat().st_mode,
        socket.stat().st_ino,
    ) == (
        before[0],
        before[1].st_mtime_ns,
        before[1].st_mode,
        before[2],
    )
    # The agent's own sandboxd still obeys the runner, through the connection that was there before the agent.
    assert (environment.program_folder / "sandboxd").read_bytes() == before[0]
    assert (await environment.client.exec("echo obeys")).stdout == b"obeys\n"
    await environment.client.quit(5)
    assert await asyncio.to_thread(environment.wait) == 5
    assert (await verifier.client.exec("echo pristine; ls /tmp")).stdout == b"pristine\n"


async def test_a_fork_bomb_of_root_dies_with_its_call(container: StartContainer) -> None:
    client = (await container(pids={"limit": 200})).client
    result = await client.exec("bomb() { bomb | bomb & }; bomb 2>/dev/null; sleep 1000", timeout_seconds=2)
    assert result.timed_out
    assert (await client.stat()).processes == 0
    assert (await client.exec("echo goes on")).stdout == b"goes on\n"


async def test_the_largest_process_dies_before_the_container_does(container: StartContainer) -> None:
    client = (await container(memory={"limit": 128 * MIB})).client
    status = await client.stat()
    assert status.memory_limit_bytes == 128 * MIB
    # A bystander of the same call, that must survive, and one that eats 4 MiB at a time.
    hog = """
    sleep 1000 & bystander=$!
    x=$(head -c 4194304 /dev/zero | tr '\\0' x)
    ( y=$x; while :; do y=$y$x; done )
    echo "hog ended: $?"
    kill -0 $bystander && echo "bystander lives"
    kill $bystander
    """
    result = await client.exec(hog, timeout_seconds=120, call_id="hungry")
    assert result.stdout.decode().splitlines() == ["hog ended: 137", "bystander lives"]
    assert result.oom_killed
    status = await client.stat()
    assert status.kernel_oom_kills == 0
    [kill] = status.memory_kills
    assert (kill.command, kill.call_id, kill.limit_bytes) == ("sh", "hungry", 128 * MIB)
    assert kill.rss_bytes > 64 * MIB
    assert (await client.exec("echo goes on")).stdout == b"goes on\n"


async def test_files_in_the_page_cache_kill_nobody(container: StartContainer) -> None:
    client = (await container(memory={"limit": 64 * MIB})).client
    result = await client.exec(
        "for i in 1 2 3 4; do dd if=/dev/zero of=/file bs=1M count=50 2>/dev/null; cat /file >/dev/null; done"
    )
    assert (result.code, result.oom_killed) == (0, False)
    status = await client.stat()
    assert (status.memory_kills, status.kernel_oom_kills) == ((), 0)
