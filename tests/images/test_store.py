"""The cache finds an image by its inputs, takes over what a builder wrote, and forgets what nobody needs."""

import hashlib
import json
import os
import urllib.error
import urllib.request
import uuid
from pathlib import Path
from typing import Any

import pytest

from images.inputs import Inputs
from images.receiver import ReceiverError, receiver
from images.store import Built, Store, StoreError


def inputs(value: str) -> Inputs:
    return Inputs({"file": value})


def push(store: Store, layer: bytes) -> bytes:
    """Puts an image with one layer into the store as a builder does; returns its manifest."""
    descriptors = []
    with receiver(store.blobs) as registry:
        upload = f"http://{registry.reference.removesuffix('/image:latest')}/v2/image"
        for content in (b'{"config": 1}', layer):
            digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
            assert send("POST", f"{upload}/blobs/uploads/").status == 202
            location = f"{upload}/blobs/uploads/{uuid.uuid4().hex}"
            assert send("PATCH", location, content).status == 202
            assert send("PUT", f"{location}?digest={digest}").status == 201
            descriptors.append({"digest": digest, "size": len(content)})
        manifest = json.dumps(
            {"schemaVersion": 2, "config": descriptors[0], "layers": descriptors[1:]}
        ).encode()
        send("PUT", f"{upload}/manifests/latest", manifest)
        return registry.image_manifest()


def send(method: str, url: str, body: bytes = b"") -> Any:
    return urllib.request.urlopen(urllib.request.Request(url, data=body, method=method), timeout=10)


def add(store: Store, name: str, inputs: Inputs, layer: bytes = b"layer") -> Built:
    return store.adopt(name, inputs, push(store, layer))


def test_image_is_found_by_its_inputs_alone(tmp_path: Path) -> None:
    store = Store(tmp_path)
    built = add(store, "examples/a", inputs("1"))
    assert store.find("examples/a", inputs("1")) == built
    assert store.find("examples/a", inputs("2")) is None
    assert store.find("examples/b", inputs("1")) is None
    assert store.last_inputs("examples/a") == {"file": "1"}


def test_layout_is_whole_by_itself(tmp_path: Path) -> None:
    built = add(Store(tmp_path), "a", inputs("1"))
    (manifest,) = json.loads((built.layout / "index.json").read_text())["manifests"]
    content = json.loads((built.layout / "blobs" / manifest["digest"].replace(":", "/")).read_text())
    layer = built.layout / "blobs" / content["layers"][0]["digest"].replace(":", "/")
    assert layer.read_bytes() == b"layer"


def test_of_an_index_the_image_is_taken(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with receiver(store.blobs) as registry:
        upload = f"http://{registry.reference.removesuffix('/image:latest')}/v2/image/manifests"
        image = b'{"config": {}, "layers": []}'
        digest = f"sha256:{hashlib.sha256(image).hexdigest()}"
        attestation = {"digest": f"sha256:{'0' * 64}", "platform": {"os": "unknown"}}
        index = {"manifests": [attestation, {"digest": digest, "platform": {"os": "linux"}}]}
        send("PUT", f"{upload}/{digest}", image)
        send("PUT", f"{upload}/latest", json.dumps(index).encode())
        assert registry.image_manifest() == image


def test_builder_that_pushed_nothing_is_an_error(tmp_path: Path) -> None:
    with receiver(tmp_path) as registry, pytest.raises(ReceiverError, match="without pushing a manifest"):
        registry.image_manifest()


def test_blob_that_was_damaged_on_the_way_is_refused(tmp_path: Path) -> None:
    with receiver(tmp_path) as registry:
        url = f"http://127.0.0.1:{registry.server_port}/v2/image/blobs/uploads/{uuid.uuid4().hex}"
        with pytest.raises(urllib.error.HTTPError) as refused:
            send("PUT", f"{url}?digest=sha256:{'0' * 64}", b"damaged")
        refused.value.close()
    assert list((tmp_path / "sha256").iterdir()) == []


def test_image_with_a_missing_layer_is_not_taken(tmp_path: Path) -> None:
    store = Store(tmp_path)
    manifest = push(store, b"layer")
    layer = json.loads(manifest)["layers"][0]["digest"]
    (store.blobs / layer.replace(":", "/")).unlink()
    with pytest.raises(StoreError, match=f"did not hand over {layer}"):
        store.adopt("a", inputs("1"), manifest)


def test_image_whose_manifest_is_lost_counts_as_not_built(tmp_path: Path) -> None:
    store = Store(tmp_path)
    built = add(store, "a", inputs("1"))
    (store.blobs / built.digest.replace(":", "/")).unlink()
    assert store.find("a", inputs("1")) is None


def kept_after_pruning(store: Store) -> list[int]:
    store.prune()
    return [number for number in range(5) if store.find("a", inputs(str(number)))]


def test_pruning_keeps_the_newest_builds_and_shared_layers(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with store.building("a"):
        for number in range(5):
            built = add(store, "a", inputs(str(number)), b"old layer" if number < 2 else b"shared layer")
            os.utime(built.layout / "index.json", (number, number))
        assert kept_after_pruning(store) == [0, 1, 2, 3, 4], "pruned while somebody was building"
    assert kept_after_pruning(store) == [2, 3, 4]
    layers = {path.read_bytes() for path in (tmp_path / "blobs/sha256").iterdir()}
    assert b"shared layer" in layers
    assert b"old layer" not in layers
