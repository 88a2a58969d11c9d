"""Small parts that need no cluster."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from localcluster import current, debian, mountpoints
from localcluster.cli import app
from localcluster.errors import ClusterError
from localcluster.facts import Facts
from localcluster.layout import Layout, Profile
from localcluster.pauseimage import write_image
from localcluster.processes import Process

pytestmark = pytest.mark.unit


def test_a_process_number_that_was_given_away_is_another_process() -> None:
    own = Process.of(os.getpid())
    assert own.alive()
    other = Process(own.pid, own.started - 1)
    assert not other.alive()
    assert other.kill(1)


def test_kill_waits_for_the_end() -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as sleeper:
        assert Process.of(sleeper.pid).kill(10)
        assert not Process(sleeper.pid, 0).alive()
        assert sleeper.wait() == -9


def test_two_checkouts_share_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_CLUSTER_DIR", str(tmp_path / "one"))
    one = Layout.of(Profile.NODE)
    monkeypatch.setenv("ASSAY_CLUSTER_DIR", str(tmp_path / "two"))
    two = Layout.of(Profile.NODE)
    assert {one.id, one.cgroup, one.root}.isdisjoint({two.id, two.cgroup, two.root})


def test_facts_of_another_version_are_refused_with_the_way_out(tmp_path: Path) -> None:
    where = Layout(tmp_path)
    assert Facts.read(where) is None
    where.facts.write_text('{"schema_version": 99}')
    with pytest.raises(ClusterError, match="`down`, then `up`"):
        Facts.read(where)


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """A folder that the machine has and one that it has not, as mount points of a cluster."""
    present, absent = tmp_path / "present", tmp_path / "absent"
    present.mkdir()
    monkeypatch.setattr(mountpoints, "MOUNTS", {str(present): "", str(absent): ""})
    monkeypatch.setattr(mountpoints, "REGISTER", tmp_path / "register")
    monkeypatch.setattr(mountpoints, "MADE", tmp_path / "register" / "made.json")
    return present, absent


def test_mount_points_go_with_the_last_cluster(folders: tuple[Path, Path]) -> None:
    present, absent = folders
    holder = Process.of(os.getpid())
    mountpoints.claim("one", holder)
    mountpoints.claim("two", holder)
    mountpoints.release("one")
    assert absent.is_dir()
    mountpoints.release("two")
    mountpoints.release("two")
    assert not absent.exists()
    assert present.is_dir()
    assert not mountpoints.REGISTER.exists()


def test_a_cluster_that_crashed_does_not_hold_mount_points(folders: tuple[Path, Path]) -> None:
    mountpoints.claim("crashed", Process(os.getpid(), 1))
    mountpoints.claim("other", Process.of(os.getpid()))
    mountpoints.release("other")
    assert not folders[1].exists()


def test_a_mount_point_that_somebody_filled_stays(folders: tuple[Path, Path]) -> None:
    mountpoints.claim("one", Process.of(os.getpid()))
    (folders[1] / "file").touch()
    mountpoints.release("one")
    assert (folders[1] / "file").exists()


def test_missing_packages_are_named_to_who_may_not_install_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(debian, "PACKAGES", {"node": {"no-such-command": "its-package"}})
    monkeypatch.setattr(debian, "CNI_FOLDERS", (tmp_path,))
    assert debian.missing(["node"]) == ["its-package", "containernetworking-plugins"]
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(ClusterError, match="its-package containernetworking-plugins"):
        debian.ensure(["node"], console=None)  # type: ignore[arg-type]


def test_the_same_binary_gives_the_same_image(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_image(b"binary", tmp_path / name, "registry/pause:1")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    with tarfile.open(tmp_path / "one") as archive:
        assert archive.getnames() == ["config.json", "layer.tar", "manifest.json"]


@pytest.mark.parametrize(("value", "expected"), [("", False), ("local", False), ("current", True)])
def test_cluster_says_whose_cluster_is_used(
    monkeypatch: pytest.MonkeyPatch, value: str, expected: bool
) -> None:
    monkeypatch.setenv("CLUSTER", value)
    assert current.chosen() is expected


def test_any_other_cluster_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLUSTER", "kind")
    with pytest.raises(ClusterError, match="`local` \\(the default\\) or `current`"):
        current.chosen()


def test_a_current_cluster_is_never_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLUSTER", "current")
    done = CliRunner().invoke(app, ["down"])
    assert done.exit_code == 0
    assert "not ours to stop" in done.output


def test_a_current_cluster_without_a_kubeconfig_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CLUSTER", "current")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    done = CliRunner().invoke(app, ["up"])
    assert isinstance(done.exception, ClusterError)
    assert "no usable kubeconfig" in str(done.exception)


def test_a_current_cluster_runs_commands_plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLUSTER", "current")
    assert CliRunner().invoke(app, ["shell", "--", "sh", "-c", "exit 4"]).exit_code == 4
