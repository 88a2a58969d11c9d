"""When sandboxd ends, and whom it serves."""

import asyncio
import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from assay.runner.sandbox import SandboxLost, SandboxNotReady, SandboxRequestError
from tests.sandboxd.sandboxes import Sandbox, eventually

pytestmark = pytest.mark.sandbox
type Start = Callable[..., Awaitable[Sandbox]]

RUNNER_LOST, NO_RUNNER, TERMINATED = 201, 202, 143


def pid_1(sandbox: Sandbox) -> int:
    """The pid, as this machine sees it, of the sandboxd below `unshare`."""
    children = Path(f"/proc/{sandbox.process.pid}/task/{sandbox.process.pid}/children").read_text().split()
    return int(children[0])


async def ended(sandbox: Sandbox) -> int:
    return await asyncio.to_thread(sandbox.wait)


async def test_quit_ends_it_with_the_code_that_was_asked_for(start: Start) -> None:
    sandbox = await start()
    await sandbox.client.exec("exec >/dev/null 2>&1; setsid sleep 4711 &")
    await sandbox.client.quit(42)
    assert await ended(sandbox) == 42
    with pytest.raises(SandboxLost):
        await sandbox.client.exec("true")


async def test_quit_ends_a_running_command(start: Start) -> None:
    sandbox = await start()
    task = asyncio.create_task(sandbox.client.exec("touch started; sleep 4711"))

    async def started() -> bool:
        return (await sandbox.client.exec(["test", "-e", "started"])).code == 0

    await eventually(started)
    await sandbox.client.quit()
    assert await ended(sandbox) == 0
    with pytest.raises(Exception, match="phase ended"):
        await task


async def test_an_impossible_code_is_refused(start: Start) -> None:
    sandbox = await start()
    with pytest.raises(SandboxRequestError, match="code: 256 is not between 0 and 255"):
        await sandbox.client.quit(256)
    assert (await sandbox.client.stat()).pid == 1


async def test_sigterm_means_nothing_until_the_grace_period_is_almost_over(start: Start) -> None:
    sandbox = await start("--grace", "3s", "--grace-margin", "2s")
    os.kill(pid_1(sandbox), signal.SIGTERM)
    # The runner can still work: it has evidence to fetch.
    assert (await sandbox.client.exec("echo still here")).stdout == b"still here\n"
    assert await ended(sandbox) == TERMINATED


async def test_sigterm_does_not_hinder_quit(start: Start) -> None:
    sandbox = await start("--grace", "1h")
    os.kill(pid_1(sandbox), signal.SIGTERM)
    await sandbox.client.quit(7)
    assert await ended(sandbox) == 7


async def test_it_ends_by_itself_after_it_lost_its_runner(start: Start) -> None:
    sandbox = await start("--runner-lost-timeout", "300ms")
    await sandbox.client.close()
    assert await ended(sandbox) == RUNNER_LOST


async def test_it_ends_by_itself_if_no_runner_comes(start: Start) -> None:
    sandbox = await start("--startup-timeout", "300ms", connect=False)
    assert await ended(sandbox) == NO_RUNNER


def connect_as(uid: int, path: Path) -> bytes:
    """The first bytes that a user gets from the socket; b"" if it is closed at once."""
    answer = b""

    def connect() -> None:
        nonlocal answer
        # Linux keeps users by thread, which only the bare system call shows.
        assert ctypes.CDLL(None).syscall(117, uid, uid, uid) == 0  # setresuid
        with socket.socket(socket.AF_UNIX) as client, contextlib.suppress(ConnectionError):
            client.connect(str(path))
            client.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
            answer = client.recv(100)

    thread = threading.Thread(target=connect)
    thread.start()
    thread.join()
    return answer


async def test_only_the_runners_user_is_served(start: Start) -> None:
    sandbox = await start("--runner-uid", "65532", connect=False)
    path = sandbox.client._connection.socket_path
    for parent in path.parents[:4]:
        parent.chmod(0o755)

    async def serves_the_runner() -> bool:
        return path.exists() and await asyncio.to_thread(connect_as, 65532, path) != b""

    await eventually(serves_the_runner)
    # An agent without rights must not become root by it, and root has no business here either.
    assert await asyncio.to_thread(connect_as, 1000, path) == b""
    assert await asyncio.to_thread(connect_as, 0, path) == b""
    with pytest.raises(SandboxNotReady):
        await sandbox.client.wait_ready(0.5)


async def test_a_process_of_the_container_is_not_the_runner_whatever_its_uid(start: Start) -> None:
    sandbox = await start()
    path = sandbox.client._connection.socket_path
    preface = "b'PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n' + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])"
    script = f"import socket; s = socket.socket(1); s.connect('{path}'); s.send({preface}); print(s.recv(9))"
    result = await sandbox.client.exec([sys.executable, "-c", script])
    # Closed at once: nothing to read, or a reset.
    assert (
        result.stdout == b"b''\n"
        or b"ConnectionResetError" in result.stderr
        or b"BrokenPipe" in result.stderr
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "usage:"),
        (["nonsense"], "usage:"),
        (["serve"], "--socket is missing"),
        (["serve", "--socket", "s"], "--runner-uid is missing"),
        (["serve", "--socket", "s", "--runner-uid", "many"], "invalid value"),
        (["serve", "--socket", "s", "--runner-uid", "0", "more"], '"more" is not an option'),
        (
            ["serve", "--socket", "s", "--runner-uid", "0", "--runner-lost-timeout", "0s"],
            "must be more than 0",
        ),
        (["serve", "--socket", "s", "--runner-uid", "0"], "must be PID 1 of a container of its own"),
        (["install"], "no folder given"),
        (["supervise"], "sandboxd starts supervisors by itself"),
    ],
)
def test_a_wrong_call_says_what_is_wrong(sandboxd: Path, arguments: list[str], message: str) -> None:
    done = subprocess.run(
        [sandboxd, *arguments],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        timeout=60,
    )
    assert done.returncode in (1, 2)
    assert message in done.stderr


def test_install_puts_the_program_into_each_folder(sandboxd: Path, tmp_path: Path) -> None:
    folders = [tmp_path / "a", tmp_path / "b" / "c"]
    for _ in range(2):
        subprocess.run([sandboxd, "install", *folders], check=True)
    for folder in folders:
        installed = folder / "sandboxd"
        assert installed.read_bytes() == sandboxd.read_bytes()
        assert installed.stat().st_mode & 0o777 == 0o555
        assert subprocess.run([installed, "version"], capture_output=True, check=True).stdout == b"test\n"
