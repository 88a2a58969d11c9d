"""The cache finds an image by its inputs, takes over what a builder wrote, and forgets what nobody needs."""

import hashlib
import json
import os
from pathlib import Path

import pytest

from images.inputs import Inputs
from images.store import Store, StoreError


def inputs(value: str) -> Inputs:
    return Inputs({"file": value})


def write_dir(folder: Path, layer: bytes) -> str:
    """What `buildah push dir:` writes, with one layer; returns the manifest's digest."""
    folder.mkdir()
    descriptors = []
    for content in (b'{"config": 1}', layer):
        digest = hashlib.sha256(content).hexdigest()
        (folder / digest).write_bytes(content)
        descriptors.append({"digest": f"sha256:{digest}", "size": len(content)})
    manifest = json.dumps({"schemaVersion": 2, "config": descriptors[0], "layers": descriptors[1:]}).encode()
    (folder / "manifest.json").write_bytes(manifest)
    return f"sha256:{hashlib.sha256(manifest).hexdigest()}"


def write_docker_save(folder: Path, layer: bytes) -> str:
    """What `docker save` writes since version 25: an OCI layout whose index leads to another index."""
    digest = write_dir(folder, layer)
    blobs = folder / "blobs/sha256"
    blobs.mkdir(parents=True)
    manifest = folder / "manifest.json"
    manifest.rename(blobs / digest.removeprefix("sha256:"))
    for blob in [path for path in folder.iterdir() if path.is_file()]:
        blob.rename(blobs / blob.name)
    inner = {
        "manifests": [
            {"digest": "sha256:00", "platform": {"os": "unknown", "architecture": "unknown"}},
            {"digest": digest, "platform": {"os": "linux", "architecture": "amd64"}},
        ]
    }
    content = json.dumps(inner).encode()
    name = hashlib.sha256(content).hexdigest()
    (blobs / name).write_bytes(content)
    outer = {"mediaType": "application/vnd.oci.image.index.v1+json", "digest": f"sha256:{name}"}
    (folder / "index.json").write_text(json.dumps({"manifests": [outer]}))
    return digest


def test_image_is_found_by_its_inputs_alone(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    digest = write_dir(tmp_path / "dir", b"layer")
    store.adopt_dir("examples/a", inputs("1"), tmp_path / "dir")
    found = store.find("examples/a", inputs("1"))
    assert found is not None
    assert found.digest == digest
    assert store.find("examples/a", inputs("2")) is None
    assert store.find("examples/b", inputs("1")) is None
    assert store.last_inputs("examples/a") == {"file": "1"}


def test_layout_is_whole_by_itself(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    write_dir(tmp_path / "dir", b"layer")
    built = store.adopt_dir("a", inputs("1"), tmp_path / "dir")
    index = json.loads((built.layout / "index.json").read_text())
    (manifest,) = index["manifests"]
    content = json.loads((built.layout / "blobs" / manifest["digest"].replace(":", "/")).read_text())
    layer = built.layout / "blobs" / content["layers"][0]["digest"].replace(":", "/")
    assert layer.read_bytes() == b"layer"


def test_output_of_docker_save_is_taken_over(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    digest = write_docker_save(tmp_path / "saved", b"layer")
    assert store.adopt_layout("a", inputs("1"), tmp_path / "saved").digest == digest


def test_output_of_an_old_docker_is_refused(tmp_path: Path) -> None:
    (tmp_path / "saved").mkdir()
    with pytest.raises(StoreError, match="docker 25 or newer"):
        Store(tmp_path / "store").adopt_layout("a", inputs("1"), tmp_path / "saved")


def test_image_whose_manifest_is_lost_counts_as_not_built(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    digest = write_dir(tmp_path / "dir", b"layer")
    store.adopt_dir("a", inputs("1"), tmp_path / "dir")
    (tmp_path / "store/blobs" / digest.replace(":", "/")).unlink()
    assert store.find("a", inputs("1")) is None


def test_pruning_keeps_the_newest_builds_and_shared_layers(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    for number in range(5):
        write_dir(tmp_path / f"dir{number}", b"old layer" if number < 2 else b"shared layer")
        built = store.adopt_dir("a", inputs(str(number)), tmp_path / f"dir{number}")
        os.utime(built.layout / "index.json", (number, number))
    store.prune()
    assert [number for number in range(5) if store.find("a", inputs(str(number)))] == [2, 3, 4]
    layers = {path.read_bytes() for path in (tmp_path / "store/blobs/sha256").iterdir()}
    assert b"shared layer" in layers
    assert b"old layer" not in layers
