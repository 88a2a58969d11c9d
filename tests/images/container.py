"""A throw-away container of a built image: buildah's chroot isolation, without any network."""

import shutil
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from images.store import Built


class Container:
    """Root of a container, and commands run in it as its root user."""

    def __init__(self, buildah: list[str], name: str) -> None:
        self._buildah = buildah
        self._name = name
        self.root = Path(self._command("mount", name).stdout.strip())

    def run(self, *argv: str, cwd: str | None = None) -> subprocess.CompletedProcess[str]:
        """Runs a command without any network; its output and status are returned."""
        options = ["--workingdir", cwd] if cwd else []
        command = [
            "unshare",
            "--net",
            *self._buildah,
            "run",
            "--isolation",
            "chroot",
            *options,
            self._name,
            "--",
            *argv,
        ]
        return subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)

    def upload(self, source: Path, target: str) -> None:
        """Copies a folder's contents to an absolute path in the container."""
        shutil.copytree(source, self.root / target.lstrip("/"), dirs_exist_ok=True)

    def path(self, inside: str) -> Path:
        """Where a path of the container lies outside."""
        return self.root / inside.lstrip("/")

    def _command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*self._buildah, *arguments], capture_output=True, text=True, check=True)

    def remove(self) -> None:
        """Unmounts and deletes the container."""
        self._command("rm", self._name)


@contextmanager
def container(built: Built, storage: Path) -> Iterator[Container]:
    """A new container of an image in the store; its layers are kept in `storage` and used again."""
    buildah = [
        "buildah",
        "--storage-driver",
        "overlay",
        "--root",
        str(storage),
        "--runroot",
        f"{storage}-run",
    ]
    name = f"assay-test-{uuid.uuid4().hex[:12]}"
    command = [*buildah, "from", "--quiet", "--name", name, f"oci:{built.layout.name}"]
    # A relative path: buildah makes a name of it, and refuses those with a hidden folder.
    subprocess.run(command, cwd=built.layout.parent, capture_output=True, text=True, check=True)
    running = Container(buildah, name)
    try:
        yield running
    finally:
        running.remove()
