"""Commands, as the runner sees them."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest

from assay.runner.sandbox import (
    OutputStream,
    SandboxClient,
    SandboxError,
    SandboxLost,
    SandboxNotReady,
    SandboxPhaseEnded,
    SandboxRequestError,
)
from tests.sandboxd.sandboxes import Sandbox, eventually

pytestmark = pytest.mark.sandbox
type Start = Callable[..., Awaitable[Sandbox]]

# One child in a session of its own, and one that forked twice; both ignore what can be ignored.
ESCAPE = """
trap '' HUP TERM INT
setsid sh -c 'exec sleep 4711' &
( setsid sh -c 'sleep 4712 & exit 0' & )
"""


async def running(sandbox: SandboxClient, pattern: str) -> int:
    """How many processes in the sandbox have a command line that begins like this."""
    listing = await sandbox.exec(["ps", "-e", "-o", "args="])
    return sum(line.startswith(pattern) for line in listing.stdout.decode().splitlines())


async def until_running(sandbox: SandboxClient, pattern: str, count: int) -> None:
    async def reached() -> bool:
        return await running(sandbox, pattern) == count

    await eventually(reached)


async def test_streams_exit_code_and_bytes_come_through(sandbox: SandboxClient) -> None:
    result = await sandbox.exec(r"printf 'out\377\000'; printf 'err\376' >&2; exit 3")
    assert (result.stdout, result.stderr, result.code, result.signal) == (b"out\xff\x00", b"err\xfe", 3, 0)
    assert (result.timed_out, result.oom_killed, result.truncated) == (False, False, False)


async def test_an_argument_vector_is_run_as_it_is(sandbox: SandboxClient) -> None:
    result = await sandbox.exec(["printf", "%s|", "a b", "$HOME", "*"])
    assert result.stdout == b"a b|$HOME|*|"


async def test_death_by_signal_is_told_apart_from_a_code(sandbox: SandboxClient) -> None:
    result = await sandbox.exec("kill -SEGV $$")
    assert (result.code, result.signal) == (139, 11)
    result = await sandbox.exec("exit 139")
    assert (result.code, result.signal) == (139, 0)


async def test_environment_directory_and_user(sandbox: SandboxClient) -> None:
    result = await sandbox.exec(
        "echo $FROM_CONTAINER $X $HOME; pwd; id -un; id -G",
        env={"X": "ä=1 2"},
        cwd="/usr",
        user="nobody",
    )
    assert result.stdout.decode().splitlines() == ["yes ä=1 2 /nonexistent", "/usr", "nobody", "65534"]


async def test_without_a_directory_it_is_the_containers(start: Start) -> None:
    sandbox = await start()
    result = await sandbox.client.exec("pwd")
    assert Path(result.stdout.decode().strip()) == sandbox.client._connection.socket_path.parent


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"user": "ghost"}, 'user: "ghost" is neither in this container\'s /etc/passwd nor a number'),
        ({"cwd": "/no/such"}, "cwd: /no/such does not exist in this container"),
        ({"cwd": "relative"}, 'cwd: "relative" is not absolute'),
        ({"env": {"A=B": "c"}}, 'env: "A=B" is not a variable name'),
    ],
)
async def test_what_cannot_work_says_which_field(
    sandbox: SandboxClient, arguments: dict[str, object], message: str
) -> None:
    with pytest.raises(SandboxRequestError, match=message.replace("(", r"\(")):
        await sandbox.exec("true", **arguments)  # type: ignore[arg-type]


async def test_an_empty_or_unknown_program_is_refused(sandbox: SandboxClient) -> None:
    with pytest.raises(SandboxRequestError, match="argv: is empty"):
        await sandbox.exec([])
    with pytest.raises(SandboxRequestError, match="no program no-such-program in PATH"):
        await sandbox.exec(["no-such-program"])


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf")])
async def test_a_timeout_that_is_none_is_refused(sandbox: SandboxClient, seconds: float) -> None:
    with pytest.raises(ValueError, match="timeout_seconds must be"):
        await sandbox.exec("true", timeout_seconds=seconds)


async def test_timeout_kills_everything_and_keeps_the_output(sandbox: SandboxClient) -> None:
    result = await sandbox.exec(ESCAPE + "echo before; sleep 4713", timeout_seconds=1)
    assert result.timed_out
    assert (result.stdout, result.code, result.signal) == (b"before\n", 137, 9)
    assert await running(sandbox, "sleep 471") == 0


async def test_cancelling_kills_everything(sandbox: SandboxClient) -> None:
    task = asyncio.create_task(sandbox.exec(ESCAPE + "sleep 4713"))
    await until_running(sandbox, "sleep 471", 3)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until_running(sandbox, "sleep 471", 0)


async def test_losing_the_runner_kills_everything(start: Start) -> None:
    sandbox = await start("--runner-lost-timeout", "1h")
    other = SandboxClient(sandbox.client._connection.socket_path)
    async with other:
        await other.wait_ready(10)
        task = asyncio.create_task(other.exec(ESCAPE + "sleep 4713"))
        await until_running(sandbox.client, "sleep 471", 3)
    with pytest.raises((SandboxError, asyncio.CancelledError)):
        await task
    await until_running(sandbox.client, "sleep 471", 0)


async def test_children_live_until_the_phase_ends(sandbox: SandboxClient) -> None:
    await sandbox.exec(f"exec >/dev/null 2>&1; {ESCAPE}")
    await until_running(sandbox, "sleep 471", 2)

    async def only_they_are_left() -> bool:
        return (await sandbox.stat()).processes == 2

    await eventually(only_they_are_left)
    assert await sandbox.end_phase() == 2
    assert await running(sandbox, "sleep 471") == 0
    assert (await sandbox.stat()).processes == 0


async def test_a_command_that_the_end_of_the_phase_kills_has_no_result(sandbox: SandboxClient) -> None:
    task = asyncio.create_task(sandbox.exec("sleep 4713"))
    await until_running(sandbox, "sleep 471", 1)
    await sandbox.end_phase()
    with pytest.raises(SandboxPhaseEnded):
        await task
    assert (await sandbox.exec("echo next")).stdout == b"next\n"


async def test_what_is_paused_runs_again_only_when_it_is_resumed(
    sandbox: SandboxClient, tmp_path: Path
) -> None:
    diary = tmp_path / "diary"
    await sandbox.exec(f"setsid sh -c 'while :; do sh -c \"echo x >> {diary}\"; done' >/dev/null 2>&1 &")

    async def written_more_than(size: int) -> bool:
        return diary.exists() and diary.stat().st_size > size

    await eventually(partial(written_more_than, 0))
    assert await sandbox.pause() > 0
    size = diary.stat().st_size
    assert (await sandbox.exec("sleep 0.1; echo judged")).stdout == b"judged\n"
    assert diary.stat().st_size == size
    await sandbox.resume()
    await eventually(partial(written_more_than, size))
    await sandbox.pause()
    assert await sandbox.end_phase() > 0
    assert (await sandbox.stat()).processes == 0


async def test_a_background_child_that_holds_stdout_does_not_hold_the_call(sandbox: SandboxClient) -> None:
    async with asyncio.timeout(60):
        result = await sandbox.exec("sleep 4714 & echo started")
    assert (result.stdout, result.code) == (b"started\n", 0)
    assert await running(sandbox, "sleep 4714") == 1


async def test_zombies_are_reaped(sandbox: SandboxClient) -> None:
    # Orphans of a call that has ended: only PID 1 can reap them.
    await sandbox.exec("exec >/dev/null 2>&1; for i in 1 2 3; do (setsid sh -c 'sleep 0.2' &); done")

    async def all_reaped() -> bool:
        return (await sandbox.stat()).processes == 0

    await eventually(all_reaped)


async def test_root_who_kills_everything_kills_neither_sandboxd_nor_the_result(
    sandbox: SandboxClient,
) -> None:
    result = await sandbox.exec("kill -9 -1; echo survived; exit 4")
    assert (result.stdout, result.code) == (b"survived\n", 4)
    result = await sandbox.exec("for signal in $(seq 64); do kill -$signal 1; done; echo sent")
    assert result.stdout == b"sent\n"
    assert (await sandbox.stat()).pid == 1


async def test_a_forged_fault_does_not_end_pid_1(sandbox: SandboxClient) -> None:
    # siginfo of sigqueue(3): number, errno, code SI_QUEUE. Go would take it for a fault of its own.
    script = """
import ctypes, struct
for number in range(1, 65):
    info = struct.pack("iii", number, 0, -1) + bytes(116)
    assert ctypes.CDLL(None).syscall(129, 1, number, info) == 0, number  # rt_sigqueueinfo
print("sent")
"""
    result = await sandbox.exec([sys.executable, "-c", script])
    assert (result.stdout, result.stderr) == (b"sent\n", b"")
    assert (await sandbox.stat()).pid == 1


async def test_text_that_is_no_text_is_refused(sandbox: SandboxClient) -> None:
    # Half of a surrogate pair, as a model may write it in JSON.
    with pytest.raises(SandboxRequestError, match=r"exec: .*surrogates not allowed"):
        await sandbox.exec("echo \ud83d")


async def test_output_streams_to_a_callback_as_it_comes(sandbox: SandboxClient) -> None:
    pieces: list[tuple[OutputStream, bytes]] = []
    first = asyncio.Event()

    async def collect(stream: OutputStream, data: bytes) -> None:
        pieces.append((stream, data))
        first.set()

    task = asyncio.create_task(sandbox.exec("echo one; read line < fifo; echo two >&2", on_output=collect))
    await first.wait()
    assert not task.done()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await sandbox.exec("rm -f fifo; mkfifo fifo")
    pieces.clear()
    first.clear()
    task = asyncio.create_task(sandbox.exec("echo one; read line < fifo; echo two >&2", on_output=collect))
    await first.wait()
    assert pieces == [("stdout", b"one\n")]
    await sandbox.exec("echo go > fifo")
    assert (await task).code == 0
    assert pieces == [("stdout", b"one\n"), ("stderr", b"two\n")]


async def test_output_beyond_the_limit_is_dropped_and_marked(sandbox: SandboxClient) -> None:
    result = await sandbox.exec("head -c 3000000 /dev/zero; echo x >&2", max_output_bytes=1_000_000)
    assert (len(result.stdout), result.stderr, result.truncated) == (1_000_000, b"x\n", True)


async def test_much_output_on_both_streams_at_once(sandbox: SandboxClient) -> None:
    result = await sandbox.exec("head -c 20000000 /dev/zero >&2 & head -c 20000000 /dev/zero; wait")
    assert (len(result.stdout), len(result.stderr), result.truncated) == (20_000_000, 20_000_000, False)


async def test_many_calls_at_the_same_time(sandbox: SandboxClient) -> None:
    results = await asyncio.gather(*(sandbox.exec(f"echo {n}; exit {n}") for n in range(40)))
    assert [(result.stdout, result.code) for result in results] == [(b"%d\n" % n, n) for n in range(40)]


async def test_a_running_command_takes_a_signal(sandbox: SandboxClient) -> None:
    task = asyncio.create_task(
        sandbox.exec("trap 'exit 42' INT; touch trapped; while :; do sleep 0.02; done", call_id="one")
    )

    async def trapped() -> bool:
        return (await sandbox.exec(["test", "-e", "trapped"])).code == 0

    await eventually(trapped)
    await sandbox.signal("one", 2)
    assert (await task).code == 42
    await sandbox.signal("one", 2)
    with pytest.raises(SandboxRequestError, match="signal: 99 is not between 1 and 64"):
        await sandbox.signal("one", 99)


async def test_a_container_that_dies_is_lost_not_a_result(start: Start) -> None:
    sandbox = await start()
    task = asyncio.create_task(sandbox.client.exec("sleep 1000"))
    await until_running(sandbox.client, "sleep 1000", 1)
    sandbox.kill()
    with pytest.raises(SandboxLost):
        await task
    with pytest.raises(SandboxLost):
        await sandbox.client.exec("true")


async def test_a_sandbox_that_was_lost_is_never_found_again(start: Start) -> None:
    first = await start()
    socket = first.client._connection.socket_path
    first.kill()
    # What is at the socket now may be anything that the agent put there.
    second = await start(connect=False)
    fresh = second.client._connection.socket_path
    await second.client.wait_ready(10)
    socket.unlink()
    socket.symlink_to(fresh)
    with pytest.raises(SandboxLost):
        await first.client.exec("true")


async def test_without_sandboxd_waiting_says_so(tmp_path: Path) -> None:
    async with SandboxClient(tmp_path / "s") as client:
        with pytest.raises(SandboxNotReady, match=r"sandboxd did not answer at .*/s within 0.3 s"):
            await client.wait_ready(0.3)
        with pytest.raises(SandboxNotReady, match="call wait_ready"):
            await client.exec("true")
