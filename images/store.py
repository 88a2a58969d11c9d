"""The cache: which inputs gave which image, and the images as OCI layouts that share their blobs."""

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from images import ImagesError
from images.inputs import Inputs

_KEPT_BUILDS = 3


class StoreError(ImagesError):
    """What a builder handed over is not a whole image."""


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
    def building(self, name: str) -> Iterator[None]:
        """Holds one image, or one base, for one builder at a time; others may be built meanwhile."""
        locks = self.folder / "locks"
        locks.mkdir(parents=True, exist_ok=True)
        with (locks / "in-use").open("w") as in_use, (locks / slug(name)).open("w") as image:
            fcntl.flock(in_use, fcntl.LOCK_SH)
            fcntl.flock(image, fcntl.LOCK_EX)
            yield

    @contextmanager
    def _alone(self) -> Iterator[bool]:
        """Yields whether nobody builds, and keeps it so."""
        with (self.folder / "locks/in-use").open("w") as in_use:
            try:
                fcntl.flock(in_use, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
            else:
                yield True

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

    @property
    def blobs(self) -> Path:
        """The folder of all blobs, as a layout has it: `sha256/HEX` below it."""
        return self._blobs

    def adopt(self, name: str, inputs: Inputs, manifest: bytes) -> Built:
        """Makes an image of blobs that are in the store; StoreError if one of them is not."""
        content = json.loads(manifest)
        for part in (content["config"], *content["layers"]):
            if not self._blob(part["digest"]).is_file():
                raise StoreError(f"image {name}: the builder did not hand over {part['digest']}")
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
        """Keeps the newest builds of each image and their blobs; does nothing while somebody builds."""
        with self._alone() as alone:
            if alone:
                self._prune()

    def _prune(self) -> None:
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
        for interrupted in self._blobs.glob("upload-*"):
            interrupted.unlink()

    def _digests(self, build: Path) -> set[str]:
        digest = json.loads((build / "index.json").read_text())["manifests"][0]["digest"]
        manifest = json.loads(self._blob(digest).read_text())
        return {digest, manifest["config"]["digest"], *(layer["digest"] for layer in manifest["layers"])}

    def _builds(self, name: str) -> list[Path]:
        """Whole builds of an image, newest first."""
        folder = self.folder / "layouts" / slug(name)
        found = [path.parent for path in folder.glob("*/index.json")]
        return sorted(found, key=lambda path: (path / "index.json").stat().st_mtime_ns, reverse=True)

    def _layout(self, name: str, inputs: Inputs) -> Path:
        return self.folder / "layouts" / slug(name) / inputs.digest[:24]

    def _blob(self, digest: str) -> Path:
        return self._blobs / digest.replace(":", "/")


def slug(name: str) -> str:
    """A file name for an image's name."""
    return name.replace("/", "_")
