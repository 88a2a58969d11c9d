"""The cache: which inputs gave which image, and the images as OCI layouts that share their blobs."""

import fcntl
import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from images import ImagesError
from images.inputs import Inputs

_KEPT_BUILDS = 3
_INDEX_TYPES = {
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
}


class StoreError(ImagesError):
    """What a builder handed over is not an image this store understands."""


def cache_folder() -> Path:
    """`$ASSAY_CACHE/images`, by default `~/.cache/assay/images`."""
    named = os.environ.get("ASSAY_CACHE")
    return (Path(named) if named else Path.home() / ".cache/assay") / "images"


@dataclass(frozen=True)
class Built:
    """An image in the cache: its manifest digest (`sha256:…`) and its OCI layout, with one manifest in it."""

    digest: str
    layout: Path


class Store:
    """The images below one folder. Checkouts may share it: results are found by their inputs alone."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._blobs = folder / "blobs"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Holds the store for one builder at a time."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def find(self, name: str, inputs: Inputs) -> Built | None:
        """The image that these inputs gave, if it was built and is still whole."""
        layout = self._layout(name, inputs)
        try:
            index = json.loads((layout / "index.json").read_text())
            digest = str(index["manifests"][0]["digest"])
        except (OSError, ValueError, LookupError):
            return None
        return Built(digest, layout) if self._blob(digest).is_file() else None

    def last_inputs(self, name: str) -> Mapping[str, str] | None:
        """The labelled inputs of the image's newest build, or None."""
        builds = self._builds(name)
        if not builds:
            return None
        parts: dict[str, str] = json.loads((builds[0] / "inputs.json").read_text())
        return parts

    def adopt_dir(self, name: str, inputs: Inputs, source: Path) -> Built:
        """Takes over what `buildah push dir:…` wrote: manifest.json, and blobs named by their hex digest."""
        manifest = (source / "manifest.json").read_bytes()
        return self._adopt(name, inputs, manifest, lambda digest: source / digest.partition(":")[2])

    def adopt_layout(self, name: str, inputs: Inputs, source: Path) -> Built:
        """Takes over an unpacked OCI layout, as `docker save` writes it since version 25."""

        def blob(digest: str) -> Path:
            return source / "blobs" / digest.replace(":", "/")

        try:
            described = json.loads((source / "index.json").read_text())["manifests"][0]
            while described.get("mediaType") in _INDEX_TYPES:
                described = _image_of(json.loads(blob(described["digest"]).read_text()))
            manifest = blob(described["digest"]).read_bytes()
        except (OSError, ValueError, LookupError) as error:
            raise StoreError(
                f"image {name}: the builder's output is no OCI layout ({error}); docker 25 or newer?"
            ) from error
        return self._adopt(name, inputs, manifest, blob)

    def _adopt(self, name: str, inputs: Inputs, manifest: bytes, blob: Any) -> Built:
        content = json.loads(manifest)
        (self._blobs / "sha256").mkdir(parents=True, exist_ok=True)
        for part in (content["config"], *content["layers"]):
            if not self._blob(part["digest"]).exists():
                shutil.move(blob(part["digest"]), self._blob(part["digest"]))
        digest = f"sha256:{hashlib.sha256(manifest).hexdigest()}"
        self._blob(digest).write_bytes(manifest)
        media_type = content.get("mediaType", "application/vnd.oci.image.manifest.v1+json")
        layout = self._write_layout(
            name, inputs, {"mediaType": media_type, "digest": digest, "size": len(manifest)}
        )
        return Built(digest, layout)

    def _write_layout(self, name: str, inputs: Inputs, manifest: Mapping[str, Any]) -> Path:
        layout = self._layout(name, inputs)
        layout.mkdir(parents=True, exist_ok=True)
        (layout / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}')
        (layout / "inputs.json").write_text(json.dumps(dict(inputs.parts), indent=1, sort_keys=True))
        blobs = layout / "blobs"
        if not blobs.is_symlink():
            blobs.symlink_to(os.path.relpath(self._blobs, layout))
        # Written last: a layout without it does not count as built.
        (layout / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [manifest]}))
        return layout

    def prune(self) -> None:
        """Keeps the newest builds of each image and the blobs that they need."""
        needed: set[str] = set()
        for image in (self.folder / "layouts").iterdir():
            builds = self._builds(image.name)
            for build in builds[_KEPT_BUILDS:]:
                shutil.rmtree(build)
            for build in builds[:_KEPT_BUILDS]:
                try:
                    needed |= self._digests(build)
                except FileNotFoundError:
                    shutil.rmtree(build)
        for blob in (self._blobs / "sha256").iterdir():
            if f"sha256:{blob.name}" not in needed:
                blob.unlink()

    def _digests(self, build: Path) -> set[str]:
        digest = json.loads((build / "index.json").read_text())["manifests"][0]["digest"]
        manifest = json.loads(self._blob(digest).read_text())
        return {digest, manifest["config"]["digest"], *(layer["digest"] for layer in manifest["layers"])}

    def _builds(self, name: str) -> list[Path]:
        """Whole builds of an image, newest first."""
        folder = self.folder / "layouts" / slug(name)
        found = [path.parent for path in folder.glob("*/index.json")]
        return sorted(found, key=lambda path: (path / "index.json").stat().st_mtime_ns, reverse=True)

    def touch(self, built: Built) -> None:
        """Marks a build as used, so that `prune` keeps it."""
        now = time.time()
        os.utime(built.layout / "index.json", (now, now))

    def _layout(self, name: str, inputs: Inputs) -> Path:
        return self.folder / "layouts" / slug(name) / inputs.digest[:24]

    def _blob(self, digest: str) -> Path:
        return self._blobs / digest.replace(":", "/")


def slug(name: str) -> str:
    """A file name for an image's name."""
    return name.replace("/", "_")


def _image_of(index: Mapping[str, Any]) -> Mapping[str, Any]:
    """The first image of an index that is no attestation."""
    images: list[Mapping[str, Any]] = index["manifests"]
    return next(image for image in images if image.get("platform", {}).get("os") != "unknown")
