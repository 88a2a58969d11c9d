"""Task archives: the same bytes on every machine, and nothing in them that must not be extracted."""

import hashlib
import io
import os
import socket
import stat
import tarfile
import tracemalloc
from pathlib import Path

import pytest
from harbor.publisher.packager import Packager
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.adapters.task_folder import read_task_folder
from assay.core.archive import (
    ArchiveRefusedError,
    Entry,
    Kind,
    harbor_digest,
    uploaded_but_not_in_digest,
    write_archive,
)
from assay.runner.archive import extract_task


def make_task(folder: Path) -> Path:
    for name, text in {
        "task.toml": "[task]\nname = 'org/one'\n",
        "instruction.md": "Do it.\n",
        "tests/test.sh": "#!/bin/sh\n",
        "tests/data/expected.txt": "42\n",
        "solution/solve.sh": "#!/bin/sh\n",
        "environment/Dockerfile": "FROM debian:13\n",
    }.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "tests/test.sh").chmod(0o755)
    return folder


def archived(folder: Path) -> bytes:
    output = io.BytesIO()
    write_archive(read_task_folder(folder), output)
    return output.getvalue()


def test_the_digest_is_of_the_bytes(tmp_path: Path) -> None:
    output = io.BytesIO()
    facts = write_archive(read_task_folder(make_task(tmp_path)), output)
    assert facts.digest == f"sha256:{hashlib.sha256(output.getvalue()).hexdigest()}"
    assert facts.size == len(output.getvalue())
    assert write_archive(read_task_folder(tmp_path)) == facts


def test_the_digest_of_a_fixed_task_is_fixed() -> None:
    entries = [
        Entry("tests", Kind.FOLDER),
        Entry.of_bytes("tests/test.sh", b"#!/bin/sh\n", executable=True),
        Entry.of_bytes("task.toml", b"[task]\n"),
        Entry.of_bytes("tests/" + "n" * 150 + "/ü.txt", b""),
    ]
    # Another digest would make every published ledger unverifiable.
    assert (
        write_archive(entries).digest
        == "sha256:3e1cbaa9a763fc5aacadf07220ea0bd0972dd36e29856d0bd19839c88eb67183"
    )


@pytest.mark.parametrize(
    "disturb",
    [
        lambda folder: os.utime(folder / "task.toml", (0, 0)),
        lambda folder: (folder / "task.toml").chmod(0o600),
        lambda folder: (folder / "tests/test.sh").chmod(0o700),
        lambda folder: (folder / "tests").chmod(0o700),
        lambda folder: (folder / ".git").mkdir(),
    ],
    ids=["time", "group mode", "group mode of a program", "mode of a folder", "git's folder"],
)
def test_what_differs_between_machines_leaves_the_bytes_alone(tmp_path: Path, disturb: object) -> None:
    before = archived(make_task(tmp_path))
    disturb(tmp_path)  # type: ignore[operator]
    assert archived(tmp_path) == before


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: (folder / "tests/data/expected.txt").write_text("43\n"),
        lambda folder: (folder / "solution/solve.sh").chmod(0o755),
        lambda folder: (folder / "tests/data/expected.txt").rename(folder / "tests/data/other.txt"),
        lambda folder: (folder / "canary.txt").write_text("new"),
    ],
    ids=["a byte", "an executable bit", "a name", "a file beside the known folders"],
)
def test_what_reaches_a_container_changes_the_digest(tmp_path: Path, change: object) -> None:
    before = archived(make_task(tmp_path))
    change(tmp_path)  # type: ignore[operator]
    assert archived(tmp_path) != before


def test_the_runner_extracts_what_was_archived(tmp_path: Path) -> None:
    task = make_task(tmp_path / "task")
    (task / "tests/link.txt").symlink_to("data/expected.txt")
    packed = tmp_path / "task.tar"
    packed.write_bytes(archived(task))
    extract_task(packed, tmp_path / "out")
    assert archived(tmp_path / "out") == archived(task)
    assert stat.S_IMODE((tmp_path / "out/tests/test.sh").stat().st_mode) == 0o755
    assert stat.S_IMODE((tmp_path / "out/task.toml").stat().st_mode) == 0o644
    assert (tmp_path / "out/tests/link.txt").read_text() == "42\n"


@pytest.mark.parametrize("target", ["/etc/passwd", "../../outside", "../../../etc/passwd", "data/missing"])
def test_a_link_out_of_the_task_is_refused(tmp_path: Path, target: str) -> None:
    make_task(tmp_path)
    (tmp_path / "tests/link").symlink_to(target)
    with pytest.raises(ArchiveRefusedError, match="tests/link: a symbolic link") as refused:
        archived(tmp_path)
    assert refused.value.fix == "put the file itself there"


def test_what_is_neither_file_nor_folder_is_refused(tmp_path: Path) -> None:
    make_task(tmp_path)
    os.mkfifo(tmp_path / "tests/pipe")
    with pytest.raises(ArchiveRefusedError, match="tests/pipe: is neither a file nor a folder"):
        archived(tmp_path)
    (tmp_path / "tests/pipe").unlink()
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(tmp_path / "tests/s"))
        with pytest.raises(ArchiveRefusedError, match="tests/s"):
            archived(tmp_path)


@pytest.mark.parametrize("name", ["new\nline", "tab\there", "\x1b[31mred"])
def test_a_name_that_plays_tricks_is_refused(tmp_path: Path, name: str) -> None:
    make_task(tmp_path)
    (tmp_path / "tests" / name).write_text("")
    with pytest.raises(ArchiveRefusedError, match="rename it"):
        archived(tmp_path)


def test_a_large_file_is_not_held_in_memory(tmp_path: Path) -> None:
    make_task(tmp_path)
    with (tmp_path / "tests/large").open("wb") as large:
        large.truncate(1 << 28)
    tracemalloc.start()
    try:
        with (tmp_path / "out.tar").open("wb") as output:
            facts = write_archive(read_task_folder(tmp_path), output)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 16 << 20
    with tarfile.open(tmp_path / "out.tar") as tar:
        assert tar.getmember("tests/large").size == 1 << 28
    assert facts.size > 1 << 28


def test_harbor_computes_the_same_digest(tmp_path: Path) -> None:
    make_task(tmp_path)
    for name, text in {
        ".gitignore": "*.log\n/tests/data/secret*\n!keep.log\n",
        "README.md": "read me",
        "trajectory.json": "{}",
        "canary.txt": "outside",
        "tests/run.log": "ignored",
        "tests/keep.log": "kept",
        "tests/data/secret.txt": "ignored",
        "tests/.harborignore": "*.tmp\nscratch/\n!scratch/kept.tmp\n",
        "tests/a.tmp": "ignored",
        "tests/scratch/file": "ignored",
        "tests/sub/.harborignore": "!b.tmp\n",
        "tests/sub/b.tmp": "kept again",
        "environment/.harborignore": "*",
        "steps/one/tests/.harborignore": "x*\n",
        "steps/one/tests/x1": "ignored",
        "steps/one/tests/y1": "kept",
        "steps/one/instruction.md": "step",
        "solution/ünï.txt": "kept",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "tests/link.txt").symlink_to("data/expected.txt")
    (tmp_path / "tests/link-to-ignored").symlink_to("a.tmp")
    assert harbor_digest(read_task_folder(tmp_path)) == f"sha256:{Packager.compute_content_hash(tmp_path)[0]}"


_NAMES = st.lists(st.sampled_from(["a", "b", "a.tmp", "b.log", ".harborignore"]), min_size=1, max_size=3)
_RULES = st.lists(
    st.sampled_from(["*.tmp", "!*.tmp", "a", "/a", "b/", "!a/", "**/b.log", "# note", "a/*", "!a/b.log"]),
    max_size=4,
)


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["tests", "solution", "environment", "steps/s/tests", "steps/s"]), _NAMES, _RULES
        ),
        max_size=8,
    ),
    st.none() | _RULES,
)
def test_harbor_agrees_about_any_rules(
    tmp_path_factory: pytest.TempPathFactory,
    files: list[tuple[str, list[str], list[str]]],
    gitignore: list[str] | None,
) -> None:
    folder = make_task(tmp_path_factory.mktemp("task"))
    if gitignore is not None:
        (folder / ".gitignore").write_text("\n".join(gitignore))
    for place, names, rules in files:
        path = folder / place / "/".join(names)
        if path.is_dir() or any(parent.is_file() for parent in path.parents):
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(rules))
    if any(path.is_dir() for path in folder.rglob(".harborignore")):
        return
    assert harbor_digest(read_task_folder(folder)) == f"sha256:{Packager.compute_content_hash(folder)[0]}"


def test_files_that_harbor_uploads_without_counting_them_are_found(tmp_path: Path) -> None:
    make_task(tmp_path)
    (tmp_path / "tests/__pycache__").mkdir()
    (tmp_path / "tests/__pycache__/x.pyc").write_bytes(b"planted")
    (tmp_path / "tests/notes.txt~").write_text("backup")
    assert uploaded_but_not_in_digest(read_task_folder(tmp_path)) == [
        "tests/__pycache__/x.pyc",
        "tests/notes.txt~",
    ]


def test_a_folder_without_files_is_left_out_as_git_leaves_it_out(tmp_path: Path) -> None:
    before = archived(make_task(tmp_path))
    (tmp_path / "tests/empty/deeper").mkdir(parents=True)
    assert archived(tmp_path) == before
