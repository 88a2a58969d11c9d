"""Files and directories in and out, as the runner sees them."""

import asyncio
import hashlib
import os
import resource
from pathlib import Path

import pytest

from assay.runner.sandbox import (
    SandboxClient,
    SandboxPathNotFound,
    SandboxRequestError,
    SandboxTooLarge,
    SandboxTransferError,
)
from assay.runner.sandbox import sandbox_pb2 as pb

pytestmark = pytest.mark.sandbox

BIG = 300 * 1024 * 1024


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def make_big(path: Path) -> None:
    piece = os.urandom(1024 * 1024)
    with path.open("wb") as file:
        for _ in range(BIG // len(piece)):
            file.write(piece)


def make_tree(folder: Path) -> None:
    (folder / "deep" / "down").mkdir(parents=True)
    (folder / "deep" / "down" / "run.sh").write_text("#!/bin/sh\necho ran\n")
    (folder / "deep" / "down" / "run.sh").chmod(0o755)
    (folder / "deep" / "link").symlink_to("down/run.sh")
    (folder / "empty").mkdir()
    (folder / "ümlaut").write_bytes(b"\xff\x00")
    Path(os.fsdecode(os.fsencode(folder) + b"/caf\xe9")).write_bytes(b"latin")


def tree(folder: Path) -> dict[str, str]:
    found = {}
    for path in sorted(folder.rglob("*")):
        what = f"-> {path.readlink()}" if path.is_symlink() else ("" if path.is_dir() else digest(path))
        found[str(path.relative_to(folder))] = f"{path.lstat().st_mode:o} {what}"
    return found


async def test_a_file_goes_in_and_comes_back(sandbox: SandboxClient, tmp_path: Path) -> None:
    source, inside, back = tmp_path / "source", tmp_path / "new" / "folder" / "inside", tmp_path / "back"
    source.write_bytes(b"\x00\xffcontent")
    source.chmod(0o750)
    assert await sandbox.upload_file(source, str(inside)) == 9
    assert (inside.read_bytes(), inside.stat().st_mode & 0o777) == (b"\x00\xffcontent", 0o750)
    assert (await sandbox.download_file(str(inside), back)).size == 9
    assert (back.read_bytes(), back.stat().st_mode & 0o777) == (b"\x00\xffcontent", 0o750)


async def test_bytes_mode_and_owner(sandbox: SandboxClient, tmp_path: Path) -> None:
    target = tmp_path / "home" / "key"
    await sandbox.upload_bytes(b"", str(target))
    assert (target.read_bytes(), target.stat().st_mode & 0o777) == (b"", 0o644)
    await sandbox.upload_bytes(b"secret", str(target), mode=0o400, user="nobody")
    assert (target.stat().st_uid, target.stat().st_mode & 0o777) == (65534, 0o400)
    with pytest.raises(SandboxRequestError, match='user: "ghost"'):
        await sandbox.upload_bytes(b"", str(target), user="ghost")
    assert target.read_bytes() == b"secret"


async def test_a_directory_goes_in_and_comes_back(sandbox: SandboxClient, tmp_path: Path) -> None:
    source, inside, back = tmp_path / "source", tmp_path / "inside", tmp_path / "back"
    make_tree(source)
    await sandbox.upload_dir(source, str(inside))
    assert tree(inside) == tree(source)
    assert (await sandbox.exec([str(inside / "deep/link")])).stdout == b"ran\n"
    result = await sandbox.download_dir(str(inside), back)
    assert tree(back) == tree(source)
    assert result.skipped == ()


async def test_an_upload_into_a_directory_keeps_what_else_is_there(
    sandbox: SandboxClient, tmp_path: Path
) -> None:
    source, inside = tmp_path / "source", tmp_path / "inside"
    make_tree(source)
    inside.mkdir()
    (inside / "other").write_text("stays")
    await sandbox.upload_dir(source, str(inside))
    assert (inside / "other").read_text() == "stays"


async def test_big_transfers_are_whole_and_cost_no_memory(sandbox: SandboxClient, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    make_big(source / "big")
    want = digest(source / "big")
    ours_before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    await sandbox.upload_file(source / "big", str(tmp_path / "a"))
    await sandbox.download_file(str(tmp_path / "a"), tmp_path / "b")
    await sandbox.upload_dir(source, str(tmp_path / "c"))
    await sandbox.download_dir(str(tmp_path / "c"), tmp_path / "d")
    assert [digest(tmp_path / name) for name in ("a", "b", "c/big", "d/big")] == [want] * 4
    ours = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - ours_before) * 1024
    assert ours < BIG // 4
    assert (await sandbox.stat()).own_rss_bytes < BIG // 4


async def test_what_is_missing_is_not_found(sandbox: SandboxClient, tmp_path: Path) -> None:
    target = tmp_path / "target"
    with pytest.raises(SandboxPathNotFound, match="/no/such/file"):
        await sandbox.download_file("/no/such/file", target)
    with pytest.raises(SandboxPathNotFound, match="/no/such/folder"):
        await sandbox.download_dir("/no/such/folder", tmp_path / "folder")
    with pytest.raises(SandboxPathNotFound, match="/etc is not a file"):
        await sandbox.download_file("/etc", target)
    with pytest.raises(SandboxPathNotFound, match="/etc/passwd is not a directory"):
        await sandbox.download_dir("/etc/passwd", tmp_path / "folder")
    assert not target.exists()


async def test_a_relative_path_is_refused(sandbox: SandboxClient, tmp_path: Path) -> None:
    with pytest.raises(SandboxRequestError, match='path: "a/b" is not an absolute path'):
        await sandbox.upload_bytes(b"", "a/b")


async def test_a_limit_ends_a_download_that_an_agent_made_too_large(
    sandbox: SandboxClient, tmp_path: Path
) -> None:
    await sandbox.exec(["truncate", "-s", "1T", str(tmp_path / "sparse")])
    with pytest.raises(SandboxTooLarge, match="more than 1000000 bytes"):
        await sandbox.download_file(str(tmp_path / "sparse"), tmp_path / "back", max_bytes=1_000_000)
    assert not (tmp_path / "back").exists()
    (tmp_path / "folder").mkdir()
    (tmp_path / "sparse").rename(tmp_path / "folder" / "sparse")
    with pytest.raises(SandboxTooLarge, match="more than 1000000 bytes"):
        await sandbox.download_dir(str(tmp_path / "folder"), tmp_path / "back", max_bytes=1_000_000)


async def test_what_an_agent_left_cannot_write_outside(sandbox: SandboxClient, tmp_path: Path) -> None:
    inside, back = tmp_path / "inside", tmp_path / "back"
    inside.mkdir()
    await sandbox.exec("ln -s /etc abs && ln -s ../.. up && mkfifo pipe && echo kept > kept", cwd=str(inside))
    result = await sandbox.download_dir(str(inside), back)
    assert [path.name for path in back.iterdir()] == ["kept"]
    report = "\n".join(result.skipped)
    assert "pipe: is neither file, directory nor link" in report
    assert "abs" in report
    assert "up" in report


async def test_an_upload_goes_through_no_link_that_an_agent_planted(
    sandbox: SandboxClient, tmp_path: Path
) -> None:
    source, inside, precious = tmp_path / "source", tmp_path / "inside", tmp_path / "precious"
    make_tree(source)
    precious.mkdir()
    (precious / "run.sh").write_text("untouched")
    (inside / "deep").mkdir(parents=True)
    (inside / "deep" / "down").symlink_to(precious)
    with pytest.raises(SandboxRequestError, match="path escapes"):
        await sandbox.upload_dir(source, str(inside))
    assert (precious / "run.sh").read_text() == "untouched"


async def test_links_that_leave_are_refused_on_the_way_in(sandbox: SandboxClient, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "out").symlink_to("/etc/passwd")
    with pytest.raises(SandboxRequestError, match="is a symbolic link to /etc/passwd, which leaves"):
        await sandbox.upload_dir(source, str(tmp_path / "inside"))


async def test_what_cannot_be_uploaded_is_named(sandbox: SandboxClient, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    os.mkfifo(source / "pipe")
    with pytest.raises(SandboxTransferError, match="source/pipe is neither file, directory nor link"):
        await sandbox.upload_dir(source, str(tmp_path / "inside"))
    with pytest.raises(FileNotFoundError):
        await sandbox.upload_file(tmp_path / "missing", "/tmp/x")
    with pytest.raises(NotADirectoryError):
        await sandbox.upload_dir(Path("/etc/passwd"), str(tmp_path / "inside"))


async def test_a_full_disk_is_told_and_leaves_no_half_file(sandbox: SandboxClient, tmp_path: Path) -> None:
    disk, source = tmp_path / "disk", tmp_path / "source"
    disk.mkdir()
    source.write_bytes(bytes(5_000_000))
    # In the mount namespace of the sandbox alone.
    assert (await sandbox.exec(["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(disk)])).code == 0
    with pytest.raises(SandboxTooLarge, match="do not fit into"):
        await sandbox.upload_file(source, str(disk / "file"))
    folder = tmp_path / "folder"
    folder.mkdir()
    source.rename(folder / "file")
    with pytest.raises(SandboxTooLarge, match="no space left on device"):
        await sandbox.upload_dir(folder, str(disk))
    assert (await sandbox.exec(["ls", "-A", str(disk)])).stdout == b""


async def test_an_upload_that_is_cancelled_leaves_nothing(sandbox: SandboxClient, tmp_path: Path) -> None:
    source, folder = tmp_path / "source", tmp_path / "folder"
    make_big(source)
    task = asyncio.create_task(sandbox.upload_file(source, str(folder / "file")))
    while not (folder.exists() and list(folder.iterdir())):  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    while list(folder.iterdir()):  # noqa: ASYNC110
        await asyncio.sleep(0.001)


@pytest.mark.parametrize("kind", ["file", "dir"])
async def test_a_download_that_is_cancelled_writes_no_more(
    sandbox: SandboxClient, tmp_path: Path, kind: str
) -> None:
    source, back = tmp_path / "source", tmp_path / "back"
    source.mkdir()
    back.mkdir()
    make_big(source / "big")
    if kind == "file":
        download = sandbox.download_file(str(source / "big"), back / "big")
    else:
        download = sandbox.download_dir(str(source), back)
    task = asyncio.create_task(download)
    while not list(back.iterdir()):  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    if kind == "file":
        assert not list(back.iterdir())
    else:
        size = (back / "big").stat().st_size
        assert size < BIG
        assert (await sandbox.exec("true")).code == 0
        assert (back / "big").stat().st_size == size


async def test_a_download_cut_short_is_an_error(sandbox: SandboxClient, tmp_path: Path) -> None:
    """As if sandboxd had stopped in the middle without an error: only the end marker tells."""
    source = tmp_path / "source"
    source.mkdir()
    make_tree(source / "tree")
    (source / "file").write_bytes(b"x" * 1000)
    stub = sandbox._connection.stub

    class CutStub:
        def Download(self, request: pb.DownloadRequest) -> "CutCall":
            return CutCall(stub.Download(request))

    class CutCall:
        def __init__(self, call: object) -> None:
            self._call = call

        async def read(self) -> object:
            import grpc.aio

            reply = await self._call.read()  # type: ignore[attr-defined]
            return grpc.aio.EOF if reply is not grpc.aio.EOF and reply.HasField("end") else reply

        def cancel(self) -> None:
            self._call.cancel()  # type: ignore[attr-defined]

    sandbox._connection._stub = CutStub()
    with pytest.raises(SandboxTransferError, match="cut short after 1000 bytes"):
        await sandbox.download_file(str(source / "file"), tmp_path / "back")
    assert not (tmp_path / "back").exists()
    with pytest.raises(SandboxTransferError, match="cut short"):
        await sandbox.download_dir(str(source / "tree"), tmp_path / "folder")
