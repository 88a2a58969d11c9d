"""Which binaries belong to which pins, and that each is built once."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pytest
from rich.console import Console

from localcluster import build, layout, toolset
from localcluster.errors import ClusterError
from localcluster.toolset import TOOLS, Tool, select

pytestmark = pytest.mark.unit


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The tools' sources, free to change, and an empty cache."""
    sources = tmp_path / "tools"
    shutil.copytree(layout.TOOLS, sources)
    monkeypatch.setattr(layout, "TOOLS", sources)
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "cache"))
    return sources


@pytest.mark.parametrize("name", ["go.mod", "go.sum", "main.go"])
def test_any_change_to_the_sources_is_another_binary(copied: Path, name: str) -> None:
    before, other = TOOLS["coredns"].key(), TOOLS["etcd"].key()
    with (copied / "coredns" / name).open("a") as source:
        source.write("\n// changed\n")
    assert TOOLS["coredns"].key() != before
    assert TOOLS["etcd"].key() == other


def test_the_kubernetes_version_is_stated_once_and_linked_into_the_binaries(copied: Path) -> None:
    module = copied / "kubernetes" / "go.mod"
    module.write_text(
        module.read_text().replace(
            f"k8s.io/kubernetes {toolset.kubernetes_version()}", "k8s.io/kubernetes v9.8.7"
        )
    )
    assert toolset.kubernetes_version() == "v9.8.7"
    assert "version.gitVersion=v9.8.7" in TOOLS["kubernetes"].link_flags()
    assert "version.gitMinor=8" in TOOLS["kubernetes"].link_flags()


def test_every_tool_of_a_set_has_pins_and_packages() -> None:
    for tool in select("demo"):
        assert tool.packages()
        assert (tool.source / "go.sum").exists()
    assert {tool.name for tool in select("control-plane")} == {"etcd", "kubernetes"}


def test_an_unknown_set_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ClusterError, match="control-plane, simulated, demo"):
        select("everything")


def test_two_processes_build_a_tool_once(copied: Path) -> None:
    consoles = [Console(record=True, quiet=True) for _ in range(2)]
    threads = [
        threading.Thread(target=build.ensure, args=([TOOLS["pause"]], console)) for console in consoles
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    folders = sorted(path.name for path in (layout.cache() / "bin").iterdir())
    assert folders == [TOOLS["pause"].directory().name, "pause.lock"]
    assert (TOOLS["pause"].directory() / "pause").stat().st_mode & 0o111


def test_a_build_that_fails_says_why_and_leaves_no_binary(copied: Path) -> None:
    (copied / "pause" / "main.go").write_text("package main\n\nfunc main() { undefined() }\n")
    with pytest.raises(ClusterError, match=r"building pause failed(.|\n)*undefined: undefined"):
        build.ensure([TOOLS["pause"]], Console(quiet=True))
    assert not TOOLS["pause"].directory().exists()


def test_without_go_the_message_says_what_to_install(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(copied))
    with pytest.raises(ClusterError, match=r"`go` is not on PATH: install Go 1\.\d+ or newer"):
        Tool("pause", 1).key()


def test_an_old_go_that_may_not_fetch_a_newer_one_is_named(
    copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (copied / "pause" / "go.mod").write_text("module x\n\ngo 1.99\n")
    monkeypatch.setenv("GOTOOLCHAIN", "local")
    monkeypatch.setattr(toolset, "_go_versions", {})
    with pytest.raises(ClusterError, match=r"Go 1\.99 or newer is needed"):
        build.ensure([TOOLS["pause"]], Console(quiet=True))
