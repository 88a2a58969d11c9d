"""What is built from Go source, at which pins, and which target needs what."""

from __future__ import annotations

import hashlib
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from localcluster import layout
from localcluster.errors import ClusterError

#: The tidy way to pin: go.mod and go.sum say exactly what is compiled, and -mod=readonly keeps them so.
BUILD_FLAGS = ("-trimpath", "-mod=readonly")
STRIP = "-s -w"


@dataclass(frozen=True)
class Tool:
    """One folder of localcluster/tools: a Go module of its own, as the dependency trees disagree."""

    name: str
    #: Build time on two idle cores, when the tools before it in the list have filled the Go build cache.
    seconds: int
    #: Binaries whose package is not named as the command that people know.
    rename: dict[str, str] = field(default_factory=dict)

    @property
    def source(self) -> Path:
        return layout.TOOLS / self.name

    def packages(self) -> list[str]:
        """What is compiled: the imports of tools.go, or the folder itself where it is a program."""
        pins = self.source / "tools.go"
        if not pins.exists():
            return ["."]
        return re.findall(r'^\s*_ "([^"]+)"', pins.read_text(), re.MULTILINE)

    def link_flags(self) -> str:
        """Linker flags; Kubernetes reports no version unless the linker is told, and clients ask for it."""
        if self.name != "kubernetes":
            return STRIP
        major, minor = kubernetes_version().lstrip("v").split(".")[:2]
        package = "k8s.io/component-base/version"
        values = {"gitVersion": kubernetes_version(), "gitMajor": major, "gitMinor": minor}
        return " ".join([STRIP, *(f"-X {package}.{name}={value}" for name, value in values.items())])

    def key(self) -> str:
        """Twelve hex digits over everything that decides the binaries' content."""
        digest = hashlib.sha256()
        for path in sorted(self.source.iterdir()):
            if path.suffix in {".go", ".mod", ".sum"}:
                digest.update(f"{path.name}\0".encode() + path.read_bytes() + b"\0")
        digest.update("\0".join([*BUILD_FLAGS, self.link_flags(), go_version(self.source)]).encode())
        return digest.hexdigest()[:12]

    def directory(self) -> Path:
        """Where the binaries are once they are built."""
        return layout.cache() / "bin" / f"{self.name}-{self.key()}"


TOOLS = {
    tool.name: tool
    for tool in (
        Tool("kubernetes", 310),
        Tool("etcd", 25, rename={"server": "etcd"}),
        Tool("kube-router", 95),
        Tool("coredns", 60),
        Tool("registry", 20),
        Tool("versitygw", 75),
        Tool("crane", 5),
        Tool("helm", 65),
        Tool("pause", 2),
        Tool("kwok", 60),
    )
}

SETS = {
    "control-plane": ("etcd", "kubernetes"),
    "simulated": ("etcd", "kubernetes", "kwok"),
    "demo": (
        "etcd",
        "kubernetes",
        "kube-router",
        "coredns",
        "registry",
        "versitygw",
        "crane",
        "helm",
        "pause",
    ),
}


def select(name: str) -> list[Tool]:
    """The tools of a set, or the one tool of that name.

    Raises ClusterError for a name that is neither.
    """
    if name in SETS:
        return [TOOLS[member] for member in SETS[name]]
    if name in TOOLS:
        return [TOOLS[name]]
    raise ClusterError(
        f"nothing is called {name!r}: name a set ({', '.join(SETS)}) or a tool ({', '.join(TOOLS)})"
    )


def kubernetes_version() -> str:
    """The version, such as v1.34.4, from the one place that states it: tools/kubernetes/go.mod."""
    pinned = re.search(
        r"^require k8s\.io/kubernetes (v\S+)", (layout.TOOLS / "kubernetes/go.mod").read_text(), re.M
    )
    if not pinned:
        raise ClusterError("localcluster/tools/kubernetes/go.mod: no line `require k8s.io/kubernetes v…`")
    return pinned[1]


_go_versions: dict[Path, str] = {}


def go_version(module: Path) -> str:
    """What `go version` says in a module's folder: there Go picks the toolchain that go.mod asks for.

    Raises ClusterError when Go is absent, or older than the module and unable to fetch a newer one.
    """
    if module not in _go_versions:
        wanted = re.search(r"^go (\d[\d.]*)", (module / "go.mod").read_text(), re.MULTILINE)
        if not wanted:
            raise ClusterError(f"{module}/go.mod: no line `go 1.…`")
        need = f"Go {wanted[1]} or newer"
        try:
            done = subprocess.run(["go", "version"], cwd=module, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            raise ClusterError(f"`go` is not on PATH: install {need} from https://go.dev/dl") from None
        # GOTOOLCHAIN=auto has fetched it by now; an old Go, or one told not to, states its own version.
        found = re.search(r"go(\d[\d.]*)", done.stdout)
        if done.returncode or not found or _numbers(found[1]) < _numbers(wanted[1]):
            raise ClusterError(f"{need} is needed by {module}: {(done.stdout + done.stderr).strip()}")
        _go_versions[module] = done.stdout.strip()
    return _go_versions[module]


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".") if part]
