"""Termination message, task archive, evidence names, Dockerfiles, settings, trial configuration."""

import io
import json
import tarfile
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.api.evidence import EvidenceFile, TerminationMessage
from assay.api.outcome import OutcomeClass
from assay.runner.archive import BadArchive, extract_task
from assay.runner.files import FoundFile, LeftOut, evidence_name, walk
from assay.runner.settings import SettingsError, load_pod
from assay.runner.termination import termination_message
from assay.runner.verifier_dockerfile import Copy, DockerfileNeedsBuild, read_copy_only

DIGEST = f"sha256:{'a' * 64}"


@given(st.text(max_size=3000), st.floats(0, 1) | st.none(), st.sampled_from(OutcomeClass))
def test_termination_message_is_always_short_valid_json(
    reason: str, reward: float | None, outcome: OutcomeClass
) -> None:
    data = termination_message("j" * 63, "8" * 36, outcome, reward, DIGEST, reason)
    assert len(data) <= 1000
    message = TerminationMessage.model_validate_json(data)
    assert (message.outcome, message.reward, message.manifest) == (outcome, reward, DIGEST)


def test_short_reason_is_kept_whole() -> None:
    data = termination_message("j", "8" * 36, OutcomeClass.SETUP_FAILED, reason="tmux is not in the image")
    assert json.loads(data)["reason"] == "tmux is not in the image"


def archive(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w") as tar:
        for info, data in members:
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


def member(name: str, mode: int = 0o644, **fields: object) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.mode = mode
    for field, value in fields.items():
        setattr(info, field, value)
    return info


def test_modes_are_normalised(tmp_path: Path) -> None:
    tar = archive(
        tmp_path / "t.tar",
        (member("tests/test.sh", 0o4700), b"#!"),
        (member("task.toml", 0o600), b"x"),
        (member("data.bin", 0o666), b"y"),
    )
    extract_task(tar, tmp_path / "task")
    modes = {
        str(path.relative_to(tmp_path / "task")): path.stat().st_mode & 0o7777
        for path in (tmp_path / "task").rglob("*")
    }
    assert modes == {"tests": 0o755, "tests/test.sh": 0o755, "task.toml": 0o644, "data.bin": 0o644}


@pytest.mark.parametrize(
    "bad",
    [
        member("../outside"),
        member("/etc/cron.d/x"),
        member("link", type=tarfile.SYMTYPE, linkname="../../etc/passwd"),
        member("pipe", type=tarfile.FIFOTYPE),
        member("disk", type=tarfile.BLKTYPE),
    ],
    ids=lambda info: info.name,
)
def test_members_that_leave_the_folder_are_refused(tmp_path: Path, bad: tarfile.TarInfo) -> None:
    target = tmp_path / "deep" / "task"
    with pytest.raises(BadArchive):
        extract_task(archive(tmp_path / "t.tar", (bad, b"")), target)
    outside = [path for path in tmp_path.rglob("*") if not path.is_relative_to(target.parent)]
    assert outside == [tmp_path / "t.tar"]


def test_damaged_archive(tmp_path: Path) -> None:
    (tmp_path / "t.tar").write_bytes(b"no tar" * 1000)
    with pytest.raises(BadArchive, match="cannot be extracted"):
        extract_task(tmp_path / "t.tar", tmp_path / "task")


@given(st.lists(st.binary(min_size=1, max_size=20).filter(lambda b: not set(b) & set(b"/\0")), min_size=1))
def test_every_file_name_has_a_valid_evidence_path(parts: list[bytes]) -> None:
    parts = [part for part in parts if part not in (b".", b"..")]
    name = evidence_name(b"/".join(parts))
    if parts and len(name) <= 600:
        EvidenceFile(path=f"trial/{name}", size=0, sha256=DIGEST)


@given(st.binary(max_size=20), st.binary(max_size=20))
def test_different_files_have_different_evidence_paths(one: bytes, other: bytes) -> None:
    assert (one == other) == (evidence_name(one) == evidence_name(other))


def test_links_are_named_and_never_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "file").write_text("x")
    (tmp_path / "link").symlink_to("/etc/passwd")
    (tmp_path / "folder").symlink_to("/etc")
    found = list(walk(tmp_path))
    assert [entry.name for entry in found if isinstance(entry, FoundFile)] == ["real/file"]
    assert {entry.name: entry.reason for entry in found if isinstance(entry, LeftOut)} == {
        "folder": "symbolic link to /etc",
        "link": "symbolic link to /etc/passwd",
    }


def dockerfile(folder: Path, text: str) -> Path:
    (folder / "tests" / "data").mkdir(parents=True)
    for name in ("test.sh", "grader.py"):
        (folder / "tests" / name).write_text("x")
    path = folder / "tests" / "Dockerfile"
    path.write_text(text)
    return path


def test_dockerfile_that_only_copies(tmp_path: Path) -> None:
    path = dockerfile(
        tmp_path,
        "# comment\nFROM task:1\nCOPY test.sh /tests/test.sh\nCOPY grader.py test.sh \\\n  /tests/more/\n"
        "COPY data /data\nWORKDIR /w\nCOPY grader.py .\nRUN chmod +x /tests/test.sh grader.py\nLABEL a=b\n",
    )
    plan = read_copy_only(path)
    tests = path.parent.resolve()
    assert plan.copies == (
        Copy(tests / "test.sh", PurePosixPath("/tests/test.sh")),
        Copy(tests / "grader.py", PurePosixPath("/tests/more/grader.py")),
        Copy(tests / "test.sh", PurePosixPath("/tests/more/test.sh")),
        Copy(tests / "data", PurePosixPath("/data")),
        Copy(tests / "grader.py", PurePosixPath("/w/grader.py")),
    )
    assert plan.programs == (PurePosixPath("/tests/test.sh"), PurePosixPath("/w/grader.py"))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("RUN apt-get install -y jq", "line 2"),
        ("COPY --from=builder /x /y", "line 2"),
        ("COPY *.sh /tests/", "line 2"),
        ("ENV A=b", "line 2"),
        ("COPY missing.sh /tests/", "does not hold"),
        ("COPY ../../secret /tests/", "does not hold"),
    ],
)
def test_dockerfile_that_needs_a_build(tmp_path: Path, line: str, words: str) -> None:
    with pytest.raises(DockerfileNeedsBuild, match=words):
        read_copy_only(dockerfile(tmp_path, f"FROM task:1\n{line}\n"))


def test_settings_name_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot read the try spec"):
        load_pod({"ASSAY_TRY_SPEC": str(tmp_path / "none.json"), "POD_NAME": "p", "POD_UID": "u"})
