"""Copies images from the cache into a registry with crane; no builder is needed for it."""

import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from images import ImagesError
from images.store import Built, cache_folder

_PARALLEL = 4


class PushError(ImagesError):
    """An image did not reach the registry; the message says which and why."""


def find_crane() -> Path:
    """`$ASSAY_CRANE`, else crane on the path, else the one that the local cluster built."""
    if named := os.environ.get("ASSAY_CRANE"):
        return Path(named)
    if found := shutil.which("crane"):
        return Path(found)
    built = sorted(
        cache_folder().parent.glob("**/crane"), key=lambda path: path.stat().st_mtime, reverse=True
    )
    for path in built:
        if path.is_file() and os.access(path, os.X_OK):
            return path
    raise PushError("crane was not found: `make cluster-up` builds it, or name one in ASSAY_CRANE")


def in_registry(reference: str, registry: str) -> str:
    """Where an image goes: `assay.test/operator:1` in registry `10.0.0.1:5000` is `10.0.0.1:5000/operator:1`.

    The node's mirror configuration asks the local registry for the path without the original host.
    """
    host, _, path = reference.partition("/")
    if not path or not ("." in host or ":" in host or host == "localhost"):
        path = reference
    return f"{registry.rstrip('/')}/{path}"


def push_all(images: list[tuple[str, Built]], registry: str, *, plain_http: bool) -> list[str]:
    """Pushes (reference, image) pairs, a few at a time; returns the pushed names with their digests.

    Raises PushError for the first image that the registry did not take, or stored under another digest.
    """
    crane = find_crane()
    with ThreadPoolExecutor(_PARALLEL) as pool:
        return list(pool.map(lambda item: _push(crane, item[0], item[1], registry, plain_http), images))


def _push(crane: Path, reference: str, built: Built, registry: str, plain_http: bool) -> str:
    target = in_registry(reference, registry)
    command = [str(crane), "push", *(["--insecure"] if plain_http else []), str(built.layout), target]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise PushError(f"{reference} was not pushed to {registry}: {done.stderr.strip().splitlines()[-1:]}")
    pushed = done.stdout.strip()
    if not pushed.endswith(built.digest):
        raise PushError(f"{reference}: the registry has {pushed}, the cache has {built.digest}")
    return pushed
