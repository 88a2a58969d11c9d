"""Freezes a folder of tasks into a ledger and publishes it, by the commands that a user would type."""

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from demo.commands import run
from demo.install import image_rows
from demo.target import Storage

_ASSAY = str(Path(sys.executable).with_name("assay"))


def publish_ledger(
    storage: Storage,
    tasks: Path,
    build_file: Path,
    scratch: Path,
    *,
    name: str,
    namespace: str,
    image_groups: tuple[str, ...] = ("examples",),
) -> dict[str, Any]:
    """Builds and publishes the ledger of the tasks below `tasks`; returns the manifest of its Ledger.

    `image_groups` are the images of this checkout that task files may name. Raises DemoError.
    """
    scratch.mkdir(parents=True, exist_ok=True)
    images, ledger, archives = scratch / "images.json", scratch / "ledger.jsonl", scratch / "archives"
    images.write_text(json.dumps(image_map(*image_groups)))
    stated = ("--build-file", str(build_file), "--images", str(images))
    kept = ("--archives", str(archives))
    assay(storage, "ledger", "build", str(tasks), *stated, *kept, "--output", str(ledger))
    place = ("--bucket", storage.bucket)
    assay(storage, "ledger", "publish", str(ledger), *kept, *place)
    named = ("--name", name, "--namespace", namespace)
    printed = assay(storage, "ledger", "manifest", str(ledger), *place, *named)
    manifest: dict[str, Any] = yaml.safe_load(printed)
    return manifest


def image_map(*groups: str) -> Mapping[str, str]:
    """From each name that task files give to the image of this checkout, by digest."""
    return {row["reference"]: row["pinned"] for row in image_rows(*groups)}


def assay(storage: Storage, *arguments: str) -> str:
    """Runs `assay` with the keys of the storage. Raises DemoError."""
    return run([_ASSAY, *arguments], environment={**os.environ, **storage.environment()})
