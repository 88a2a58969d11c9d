"""What a cluster does to the machine it runs on, and to its neighbours."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from localcluster import cgroups, mountpoints, toolset
from localcluster.layout import PAUSE_IMAGE, Profile

from .conftest import Machine

pytestmark = pytest.mark.e2e


@pytest.fixture
def neighbour(needs_root: None, tmp_path: Path) -> Iterator[Machine]:
    """A second cluster, in a folder whose name alone is longer than a Unix socket's path may be."""
    machine = Machine(tmp_path / ("long" * 30) / "cluster")
    yield machine
    machine.succeed("down", "--purge")


def traces(machine: Machine) -> dict[str, list[str]]:
    """Everything outside the cluster's folder that belongs to it."""
    root, identity = str(machine.layout().root), machine.layout().id
    claims = [str(path) for path in mountpoints.REGISTER.glob(f"{identity}.claim")]
    processes = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes().decode(errors="replace")
            groups = (folder / "cgroup").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if root in command or machine.layout().cgroup in groups:
            processes.append(command)
    return {
        "mounts": [line for line in Path("/proc/self/mounts").read_text().splitlines() if root in line],
        "cgroups": [str(path) for path in cgroups.remaining(machine.layout().cgroup)],
        "namespaces": processes,
        "claims": claims,
    }


def shared_by_all() -> dict[str, object]:
    """What components would change for the whole machine if they were let."""
    kernel = (
        "kernel/panic",
        "kernel/panic_on_oops",
        "vm/overcommit_memory",
        "net/netfilter/nf_conntrack_max",
    )
    settings = {name: Path("/proc/sys", name) for name in kernel}
    folders = ("/opt/containerd", "/usr/libexec/kubernetes", "/var/run/kubernetes", "/run/netns")
    return {
        **{name: path.read_text() for name, path in settings.items() if path.exists()},
        **{folder: Path(folder).exists() for folder in folders},
    }


def test_two_clusters_run_side_by_side_and_one_ends_without_the_other_noticing(
    machine: Machine, neighbour: Machine
) -> None:
    before = shared_by_all()
    neighbour.succeed("up")
    for each in (machine, neighbour):
        each.inside("kubectl", "run", "mine", f"--image={PAUSE_IMAGE}", "--restart=Never")
        each.inside("kubectl", "wait", "--for=condition=Ready", "pod/mine", "--timeout=60s")
    left = traces(neighbour)
    assert left["cgroups"]
    assert left["namespaces"]
    neighbour.succeed("down")
    assert traces(neighbour) == {"mounts": [], "cgroups": [], "namespaces": [], "claims": []}
    assert shared_by_all() == before
    machine.succeed("status")
    assert machine.inside("kubectl", "get", "pod", "mine", "-o", "jsonpath={.status.phase}") == "Running"
    machine.inside("kubectl", "run", "later", f"--image={PAUSE_IMAGE}", "--restart=Never")
    machine.inside("kubectl", "wait", "--for=condition=Ready", "pod/later", "--timeout=60s")
    machine.inside("kubectl", "delete", "pod", "mine", "later", "--grace-period=0", "--force")


def test_a_start_that_fails_names_the_component_with_its_last_words_and_leaves_nothing(
    needs_root: None, tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    (cache / "bin").mkdir(parents=True)
    for tool in toolset.select("demo"):
        (cache / "bin" / tool.directory().name).symlink_to(tool.directory())
    broken = cache / "bin" / toolset.TOOLS["coredns"].directory().name
    broken.unlink()
    broken.mkdir()
    (broken / "coredns").write_text("#!/bin/sh\necho the names are gone\nexit 3\n")
    (broken / "coredns").chmod(0o755)
    machine = Machine(tmp_path / "cluster", {"ASSAY_CACHE": str(cache)})
    said = machine.fail("up")
    assert "coredns died (exit status 3)" in said
    assert "the names are gone" in said
    assert traces(machine) == {"mounts": [], "cgroups": [], "namespaces": [], "claims": []}
    assert (machine.layout().logs / "coredns.log").exists()
    machine.succeed("down", "--purge")


def test_without_kube_router_a_policy_is_not_enforced_and_the_facts_say_so(neighbour: Machine) -> None:
    neighbour.succeed("up", "--without", "kube-router")
    assert neighbour.cluster().facts.without == ("kube-router",)
    assert "kube-router" not in neighbour.succeed("status")
    assert "--restart" in neighbour.fail("up")
    assert "only coredns" in neighbour.fail("up", "--restart", "--without", "etcd")


def test_a_control_plane_starts_for_any_user_and_has_no_node(tmp_path: Path) -> None:
    alone = Machine(tmp_path)
    alone.succeed("up", "--profile", "control-plane")
    try:
        shell = ["shell", "--profile", "control-plane", "--"]
        assert alone.succeed(*shell, "kubectl", "get", "--raw", "/readyz") == "ok"
        alone.succeed(*shell, "kubectl", "create", "namespace", "mine")
        alone.succeed(*shell, "kubectl", "wait", "--for=create", "serviceaccount/default", "-n", "mine")
        assert "no cluster is up" in alone.fail("status")
    finally:
        alone.succeed("down")
    assert not alone.layout(Profile.CONTROL_PLANE).root.exists()
