"""Evidence is bounded, and what is left out is named."""

import contextlib
import json
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from assay.runner.evidence import Evidence, Limits
from assay.runner.gateway_client import Deadline, DigestMismatch, GatewayClient, GatewayUnavailable
from assay.runner.scrub import Scrubber
from assay.runner.state import RunnerState
from tests.runner.gateway_double import TOKEN, GatewayDouble, serving


@contextlib.asynccontextmanager
async def evidence_for(
    tmp_path: Path, limits: Limits | None = None
) -> AsyncIterator[tuple[GatewayDouble, GatewayClient, Evidence]]:
    (tmp_path / "token").write_text(TOKEN)
    scrubber = Scrubber()
    async with (
        serving(GatewayDouble(), socket.create_server(("127.0.0.1", 0))) as gateway,
        GatewayClient(gateway.url, tmp_path / "token", scrubber.add) as client,
    ):
        yield gateway, client, Evidence(client, scrubber, RunnerState(tmp_path / "state"), limits or Limits())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "trial"
    folder.mkdir()
    return folder


async def test_large_files_are_cut_and_named(tmp_path: Path, folder: Path) -> None:
    (folder / "large.log").write_bytes(b"x" * 5000)
    (folder / "small.log").write_bytes(b"y" * 10)
    async with evidence_for(tmp_path, Limits(file_bytes=1000)) as (gateway, _, evidence):
        await evidence.put_folder("trial", folder, Deadline(10))
        await evidence.put_omissions(Deadline(10))

    assert gateway.files["trial/large.log"] == b"x" * 1000
    assert gateway.files["trial/small.log"] == b"y" * 10
    omitted = json.loads(gateway.files["omissions.json"])["omitted"]
    assert omitted == [{"path": "trial/large.log", "reason": "kept the first 1000 of 5000 bytes"}]


async def test_a_try_has_a_bound_in_bytes_and_in_files(tmp_path: Path, folder: Path) -> None:
    for number in range(6):
        (folder / f"{number}.log").write_bytes(b"x" * 100)
    async with evidence_for(tmp_path, Limits(total_bytes=250, files=4)) as (gateway, _, evidence):
        await evidence.put_folder("trial", folder, Deadline(10))
        await evidence.put_omissions(Deadline(10))

    kept = [data for path, data in gateway.files.items() if path.startswith("trial/")]
    assert len(kept) == 4
    # Files that are uploaded at the same moment share what is left.
    assert sum(map(len, kept)) <= 400
    named = {entry["path"] for entry in json.loads(gateway.files["omissions.json"])["omitted"]}
    assert {"trial/4.log", "trial/5.log"} <= named


async def test_a_file_larger_than_memory_should_hold_is_streamed(tmp_path: Path, folder: Path) -> None:
    data = b"line of a log\n" * 1_000_000
    (folder / "big.log").write_bytes(data + b"sk-ant-api03-secretsecret1\n")
    async with evidence_for(tmp_path) as (gateway, _, evidence):
        await evidence.put_folder("trial", folder, Deadline(30))
        (file,) = evidence.files

    assert gateway.files["trial/big.log"] == data + b"[scrubbed:anthropic]\n"
    assert file.size == len(gateway.files["trial/big.log"])


async def test_what_the_gateway_holds_is_not_sent_again(tmp_path: Path, folder: Path) -> None:
    (folder / "a.log").write_bytes(b"x")
    async with evidence_for(tmp_path) as (gateway, _, evidence):
        for _ in range(2):
            await evidence.put_folder("trial", folder, Deadline(10))
        assert gateway.order == ["trial/a.log"]
        (folder / "a.log").write_bytes(b"changed")
        await evidence.put_folder("trial", folder, Deadline(10))
        assert gateway.files["trial/a.log"] == b"changed"
    assert [file.path for file in evidence.files] == ["trial/a.log"]


async def test_versions_of_a_file_that_grows_count_once(tmp_path: Path, folder: Path) -> None:
    async with evidence_for(tmp_path, Limits(total_bytes=300, files=1)) as (gateway, _, evidence):
        for lines in range(1, 11):
            (folder / "a.log").write_bytes(b"23 characters and more\n" * lines + b"not yet a line")
            sent = await evidence.put_unfinished("trial/a.log", folder / "a.log", Deadline(10))
            assert sent == 23 * lines
        assert await evidence.put_unfinished("trial/a.log", folder / "a.log", Deadline(10)) == 0
        await evidence.put_folder("trial", folder, Deadline(10))
        await evidence.put_omissions(Deadline(10))

    assert gateway.files == {"trial/a.log": (folder / "a.log").read_bytes()}


async def test_what_has_no_room_yet_waits_for_the_end(tmp_path: Path, folder: Path) -> None:
    (folder / "large.log").write_bytes(b"line\n" * 100)
    async with evidence_for(tmp_path, Limits(unfinished_bytes=100)) as (gateway, _, evidence):
        assert await evidence.put_unfinished("trial/large.log", folder / "large.log", Deadline(10)) == 0
        assert gateway.files == {}
        await evidence.put_folder("trial", folder, Deadline(10))
    assert len(gateway.files["trial/large.log"]) == 500


async def test_storage_that_stays_away_is_a_failure_of_the_file(tmp_path: Path, folder: Path) -> None:
    (folder / "a.log").write_bytes(b"x")
    async with evidence_for(tmp_path) as (gateway, _, evidence):
        gateway.refuse_uploads = -1
        await evidence.put_folder("trial", folder, Deadline(0.5))
        with pytest.raises(GatewayUnavailable, match="S3 is away"):
            await evidence.put_bytes("isolation.json", b"[]", Deadline(0.5))

    assert list(evidence.failed) == ["trial/a.log"]


async def test_what_there_was_no_time_for_is_named_and_no_failure(tmp_path: Path, folder: Path) -> None:
    """However much an agent writes, it earns no fresh try by it."""
    (folder / "a.log").write_bytes(b"x")
    (folder / "b.log").write_bytes(b"y")
    async with evidence_for(tmp_path) as (gateway, _, evidence):
        gateway.hangs_on = "trial/b"
        spent = Deadline(0.5)
        await evidence.put_folder("trial", folder, spent)
        (folder / "c.log").write_bytes(b"z")
        await evidence.put_folder("trial", folder, spent)
        await evidence.put_omissions(Deadline(10))

    assert evidence.failed == {}
    assert gateway.files["trial/a.log"] == b"x"
    omitted = json.loads(gateway.files["omissions.json"])["omitted"]
    assert [(one["path"], one["reason"].split(": ")[1]) for one in omitted] == [
        ("trial/b.log", "no time was left to finish it"),
        ("trial/b.log", "no time was left to begin it"),
        ("trial/c.log", "no time was left to begin it"),
    ]


async def test_archive_with_another_digest_is_not_kept(tmp_path: Path) -> None:
    digest = f"sha256:{'0' * 64}"
    async with evidence_for(tmp_path) as (gateway, client, _):
        gateway.archives[digest] = b"something else"
        with pytest.raises(DigestMismatch, match="the ledger froze sha256:0000"):
            await client.fetch_archive(digest, tmp_path / "task.tar", Deadline(5))

        assert sorted(path.name for path in tmp_path.iterdir()) == ["state", "token"]  # noqa: ASYNC240


async def test_token_is_read_again_for_each_request(tmp_path: Path) -> None:
    async with evidence_for(tmp_path) as (_, client, _):
        (tmp_path / "token").write_text("rotated-token")
        assert client.headers() == {"Authorization": "Bearer rotated-token"}
