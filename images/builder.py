"""Runs buildah or docker: one build context in, one image in the cache out."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from images import ImagesError, machine
from images.catalogue import ROOT, Image
from images.inputs import Inputs, is_executable
from images.receiver import receiver
from images.rootfs import BASES, BUILD_EPOCH, Base
from images.store import Built, Store

_HARD_LINK_ABOVE = 8 * 1024 * 1024
_LOG_TAIL = 40


class BuildError(ImagesError):
    """A build failed, or there is no builder; the message holds the end of the builder's log."""


@dataclass(frozen=True)
class Request:
    """One build: its context folder (with a `Containerfile`), arguments, secret files by id, and mounts."""

    context: Path
    arguments: Mapping[str, str]
    secrets: Mapping[str, Path]
    mount_ca: Path | None = None


class Builder(Protocol):
    """What a container builder must do for us."""

    name: str

    def build(self, request: Request) -> str:
        """Builds and returns the image's id in the builder's own storage."""

    def tag(self, image_id: str, reference: str) -> None:
        """Names an image in the builder's own storage."""

    def has(self, reference: str) -> bool:
        """Whether the builder's own storage holds that name."""

    def push(self, image_id: str, reference: str) -> None:
        """Pushes an image to a registry on loopback that speaks plain HTTP."""


def choose_builder(named: str | None, store: Store) -> Builder:
    """buildah if it is there, else docker; `named` insists on one. BuildError if there is none."""
    builders: dict[str, Builder] = {"buildah": Buildah(store.folder / "storage"), "docker": Docker()}
    for name in [named] if named else builders:
        if name not in builders:
            raise BuildError(f"unknown builder {name!r}: take buildah or docker")
        if shutil.which(name):
            return builders[name]
    raise BuildError(f"no builder found: install {named or 'buildah (apt-get install buildah) or docker'}")


class Buildah:
    """buildah with a storage of its own, so that the machine's other images stay as they are."""

    name = "buildah"

    def __init__(self, storage: Path) -> None:
        self._base = [
            *("buildah", "--storage-driver", "overlay"),
            *("--root", str(storage), "--runroot", str(storage.parent / "run")),
        ]

    def build_command(self, request: Request, id_file: Path) -> list[str]:
        """The command line of one build."""
        command = [*self._base, "build", "--isolation", "chroot", "--layers", "--format", "oci"]
        command += ["--timestamp", str(BUILD_EPOCH), "--iidfile", str(id_file)]
        command += _common_options(request)
        if request.mount_ca:
            command += ["--volume", f"{request.mount_ca}:/etc/ssl/certs/ca-certificates.crt:ro"]
        return [*command, "--file", str(request.context / "Containerfile"), str(request.context)]

    def build(self, request: Request) -> str:
        """Builds and returns the image's id."""
        with tempfile.TemporaryDirectory() as folder:
            id_file = Path(folder) / "id"
            run(self.build_command(request, id_file))
            return id_file.read_text().strip()

    def tag(self, image_id: str, reference: str) -> None:
        """Names an image."""
        run([*self._base, "tag", image_id, reference])

    def has(self, reference: str) -> bool:
        """Whether that name is there."""
        command = [*self._base, "inspect", "--type", "image", reference]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    def push(self, image_id: str, reference: str) -> None:
        """Pushes an image to a registry on loopback that speaks plain HTTP."""
        options = ["--quiet", "--tls-verify=false", "--format", "oci"]
        run([*self._base, "push", *options, image_id, f"docker://{reference}"])


class Docker:
    """docker with BuildKit. Not tried on a machine without a Docker daemon."""

    name = "docker"

    def build_command(self, request: Request, id_file: Path) -> list[str]:
        """The command line of one build; BuildError for an image that needs buildah."""
        if request.mount_ca:
            raise BuildError(
                "this image's Containerfile needs a mounted certificate bundle, "
                "which docker cannot give: use buildah"
            )
        command = [
            "docker",
            "build",
            "--provenance=false",
            "--iidfile",
            str(id_file),
            *_common_options(request),
        ]
        return [*command, "--file", str(request.context / "Containerfile"), str(request.context)]

    def build(self, request: Request) -> str:
        """Builds and returns the image's id."""
        with tempfile.TemporaryDirectory() as folder:
            id_file = Path(folder) / "id"
            environment = {"DOCKER_BUILDKIT": "1", "SOURCE_DATE_EPOCH": str(BUILD_EPOCH)}
            run(self.build_command(request, id_file), environment)
            return id_file.read_text().strip()

    def tag(self, image_id: str, reference: str) -> None:
        """Names an image."""
        run(["docker", "tag", image_id, reference])

    def has(self, reference: str) -> bool:
        """Whether that name is there."""
        return (
            subprocess.run(
                ["docker", "image", "inspect", reference], capture_output=True, check=False
            ).returncode
            == 0
        )

    def push(self, image_id: str, reference: str) -> None:
        """Pushes an image; docker trusts registries on loopback without TLS."""
        run(["docker", "tag", image_id, reference])
        try:
            run(["docker", "push", "--quiet", reference])
        finally:
            run(["docker", "rmi", "--no-prune", reference])


def _common_options(request: Request) -> list[str]:
    options = []
    for name, value in sorted(request.arguments.items()):
        options += ["--build-arg", f"{name}={value}"]
    for name, source in sorted(request.secrets.items()):
        options += ["--secret", f"id={name},src={source}"]
    return options


def run(command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
    """Runs a command; BuildError with the end of its output if it fails."""
    verbose = bool(os.environ.get("ASSAY_IMAGES_VERBOSE"))
    done = subprocess.run(
        command,
        env={**os.environ, **(environment or {})},
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr if verbose else subprocess.PIPE,
        stderr=None if verbose else subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        tail = "\n".join((done.stdout or "").splitlines()[-_LOG_TAIL:])
        raise BuildError(f"{' '.join(command[:2])} … ended with status {done.returncode}:\n{tail}")


def build_image(
    image: Image, inputs: Inputs, base_reference: str | None, builder: Builder, store: Store
) -> Built:
    """Builds one image from a clean copy of its context and puts it into the store."""
    with tempfile.TemporaryDirectory(dir=store.folder) as folder:
        context = Path(folder) / "context"
        copy_context(image.files(), context)
        arguments = dict(image.arguments)
        if base_reference:
            arguments["BASE"] = base_reference
        bundle = machine.certificate_bundle()
        secrets = _secrets(Path(folder), bundle) if not image.mount_ca else {}
        request = Request(context, arguments, secrets, bundle if image.mount_ca else None)
        image_id = builder.build(request)
    with receiver(store.blobs) as registry:
        builder.push(image_id, registry.reference)
        return store.adopt(image.name, inputs, registry.image_manifest())


def ensure_base(base: Base, builder: Builder, store: Store, say: Callable[[str], None]) -> str:
    """The name of a local base in the builder's storage; it and its parents are made where missing."""
    if builder.has(base.reference):
        return base.reference
    parent = ensure_base(BASES[base.parent], builder, store, say) if base.parent else None
    with store.building(f"base {base.name}"):
        if builder.has(base.reference):
            return base.reference
        say(f"images: base {base.name}: made once a machine, in a minute or two")
        archive = _base_archive(base, store)
        with tempfile.TemporaryDirectory(dir=store.folder) as folder:
            context = Path(folder)
            copy_context(
                {"Containerfile": ROOT / base.folder / "Containerfile", base.archive: archive}, context
            )
            image_id = builder.build(Request(context, {"BASE": parent} if parent else {}, {}))
        builder.tag(image_id, base.reference)
    return base.reference


def _base_archive(base: Base, store: Store) -> Path:
    archives = store.folder / "rootfs"
    archives.mkdir(parents=True, exist_ok=True)
    archive = archives / f"{base.name}-{base.digest()[:12]}.tar"
    if not archive.exists():
        # The suffix `.tar` is what tells mmdebstrap the format.
        partial = archive.with_name(f"partial-{archive.name}")
        partial.unlink(missing_ok=True)
        base.make(partial)
        partial.rename(archive)
    return archive


def _secrets(folder: Path, bundle: Path | None) -> dict[str, Path]:
    environment = folder / "build-environment"
    environment.touch(mode=0o600)
    environment.write_text(machine.build_environment(with_bundle=bundle is not None))
    return {"env": environment} | ({"ca": bundle} if bundle else {})


def copy_context(files: Mapping[str, Path], target: Path) -> None:
    """Copies files into a build context, with modes 0644 or 0755 and one time for all."""
    for path, source in files.items():
        copy = target / path
        copy.parent.mkdir(parents=True, exist_ok=True)
        if source.stat().st_size > _HARD_LINK_ABOVE and _linked(source, copy):
            continue
        shutil.copyfile(source, copy)
        copy.chmod(0o755 if is_executable(source) else 0o644)
    for entry in target.rglob("*"):
        if not entry.is_file() or entry.stat().st_nlink == 1:
            os.utime(entry, (BUILD_EPOCH, BUILD_EPOCH))


def _linked(source: Path, copy: Path) -> bool:
    try:
        copy.hardlink_to(source)
    except OSError:
        return False
    return True
