"""What sandboxd costs: round trip of a command, throughput of transfers, memory of sandboxd itself.

    python benchmarks/sandboxd.py [--size-mib 1024] [--rounds 200]

Needs root and Go. sandboxd runs in a pid namespace of its own; files lie in a tmpfs, so that the socket is
measured and not the disk. The floor is the same work without sandboxd, from the same run.
"""

import argparse
import asyncio
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from assay.runner.sandbox import SandboxClient

SOURCE = Path(__file__).resolve().parents[1] / "images" / "sandboxd"
MIB = 1024 * 1024
TREE_FILES, TREE_FILE_BYTES = 4000, 8 * 1024


def build(folder: Path) -> Path:
    program = folder / "sandboxd"
    subprocess.run(
        ["go", "build", "-trimpath", "-ldflags=-s -w", "-o", program, "./cmd/sandboxd"],
        cwd=SOURCE,
        env=os.environ | {"CGO_ENABLED": "0"},
        check=True,
    )
    return program


@contextmanager
def running(program: Path, socket: Path) -> Iterator[int]:
    """A sandboxd as PID 1; yields its pid as this machine sees it."""
    command = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", str(program), "serve"]
    process = subprocess.Popen([*command, "--socket", str(socket), "--runner-uid", str(os.geteuid())])
    try:
        while not socket.exists():
            time.sleep(0.01)
        yield int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text())
    finally:
        process.kill()
        process.wait()


def peak_rss_mib(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"process {pid} is gone")


def reset_peak_rss(pid: int) -> None:
    Path(f"/proc/{pid}/clear_refs").write_text("5")


async def milliseconds(work: Callable[[], Awaitable[object]], rounds: int) -> list[float]:
    taken = []
    for _ in range(rounds):
        start = time.perf_counter()
        await work()
        taken.append((time.perf_counter() - start) * 1000)
    return sorted(taken)


async def spawn() -> None:
    process = await asyncio.create_subprocess_exec("bash", "-c", "true")
    await process.wait()


def describe(taken: list[float]) -> str:
    return f"median {statistics.median(taken):5.1f} ms, 95 % below {taken[int(len(taken) * 0.95)]:5.1f} ms"


def make_files(folder: Path, size_mib: int) -> None:
    piece = os.urandom(MIB)
    (folder / "big").mkdir()
    with (folder / "big" / "file").open("wb") as file:
        for _ in range(size_mib):
            file.write(piece)
    (folder / "small").mkdir()
    for number in range(TREE_FILES):
        target = folder / "small" / f"{number % 100:02}" / f"{number}"
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(piece[:TREE_FILE_BYTES])


async def throughput(
    name: str, size: int, pid: int, work: Callable[[], Awaitable[object]]
) -> tuple[str, str]:
    await asyncio.to_thread(reset_peak_rss, pid)
    start = time.perf_counter()
    await work()
    seconds = time.perf_counter() - start
    peak = await asyncio.to_thread(peak_rss_mib, pid)
    return name, f"{size / seconds / 1e6:6.0f} MB/s, sandboxd's peak memory {peak:4.1f} MiB"


async def measure(client: SandboxClient, folder: Path, pid: int, size_mib: int, rounds: int) -> None:
    await client.wait_ready(30)
    rows = [
        ("floor: bash -c true as a child", describe(await milliseconds(spawn, rounds))),
        ("floor: gRPC call without work", describe(await milliseconds(client.stat, rounds))),
        ("exec bash -c true", describe(await milliseconds(lambda: client.exec("true"), rounds))),
        ("exec true, argument vector", describe(await milliseconds(lambda: client.exec(["true"]), rounds))),
    ]
    size, tree = size_mib * MIB, TREE_FILES * TREE_FILE_BYTES
    big, small, there = str(folder / "big/file"), folder / "small", str(folder / "there")
    back = folder / "back"
    transfers: list[tuple[str, int, Callable[[], Awaitable[object]]]] = [
        ("upload a file", size, lambda: client.upload_file(Path(big), there)),
        ("download a file", size, lambda: client.download_file(big, folder / "there")),
        ("upload a directory, one big file", size, lambda: client.upload_dir(folder / "big", f"{there}-up")),
        ("download a directory, one big file", size, lambda: client.download_dir(str(folder / "big"), back)),
        (f"upload {TREE_FILES} files of 8 KiB", tree, lambda: client.upload_dir(small, f"{there}-small")),
        (f"download {TREE_FILES} files of 8 KiB", tree, lambda: client.download_dir(str(small), back / "s")),
        ("output of a command", size, lambda: client.exec(["cat", big], max_output_bytes=0)),
    ]
    for name, amount, work in transfers:
        rows.append(await throughput(name, amount, pid, work))
    print(f"{size_mib} MiB, {rounds} rounds, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}")
    for name, figure in rows:
        print(f"  {name:38} {figure}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--size-mib", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=200)
    arguments = parser.parse_args()
    if os.geteuid() != 0 or shutil.which("go") is None:
        sys.exit("needs root (pid namespaces) and Go")

    async def run(socket: Path, folder: Path, pid: int) -> None:
        async with SandboxClient(socket) as client:
            await measure(client, folder, pid, arguments.size_mib, arguments.rounds)

    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        folder = Path(name)
        program = build(folder)
        make_files(folder, arguments.size_mib)
        with running(program, folder / "s") as pid:
            asyncio.run(run(folder / "s", folder, pid))


if __name__ == "__main__":
    main()
