"""Copies images from the cache into a registry with crane; no builder is needed for it."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from images import ImagesError
from images.store import Built, cache_folder

_PARALLEL = 4

Inside = Callable[[Sequence[str]], list[str]]
"""Makes of an argv one that runs elsewhere, for example in a cluster's network namespace."""


@dataclass(frozen=True, slots=True)
class LocalRegistry:
    """The local cluster's registry: its address, and how to run a command where it is reached."""

    address: str
    inside: Inside
    memory: Path
    """Names and digests that this start of the cluster was given; gone with it."""


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


def repository(reference: str) -> str:
    """A reference without its tag."""
    path, _, tag = reference.rpartition(":")
    return path if path and "/" not in tag else reference


def local_registry() -> LocalRegistry | None:
    """The local cluster's registry; None if no cluster is up.

    Raises PushError for a cluster that is up and not healthy.
    """
    from localcluster import ClusterError, connect
    from localcluster.cluster import INSIDE, find
    from localcluster.layout import Layout, Profile

    layout = Layout.of(Profile.NODE)
    started = find(layout)
    if INSIDE not in os.environ and not (started and started.alive()):
        return None
    try:
        cluster = connect()
    except ClusterError as error:
        raise PushError(f"the local cluster takes no images: {error}") from None
    if cluster.facts.registry is None:
        raise PushError("the local cluster was started without a registry")
    root = Path(os.environ.get(INSIDE, layout.root))
    return LocalRegistry(cluster.facts.registry.address, cluster.command, root / "pushed.json")


def push_new(images: list[tuple[str, Built]], registry: LocalRegistry) -> list[str]:
    """Like `push_all`, without what this start of the local cluster was given before: that takes no time."""
    try:
        before = dict(json.loads(registry.memory.read_text()))
    except (OSError, ValueError):
        before = {}
    new = [(reference, built) for reference, built in images if before.get(reference) != built.digest]
    pushed = push_all(new, registry.address, inside=registry.inside) if new else []
    if new and registry.memory.parent.is_dir():
        held = before | {reference: built.digest for reference, built in new}
        registry.memory.write_text(json.dumps(held, indent=1))
    return pushed


def push_all(
    images: list[tuple[str, Built]], registry: str, *, plain_http: bool = False, inside: Inside = list
) -> list[str]:
    """Pushes (reference, image) pairs, a few at a time; returns the pushed names with their digests.

    `inside` makes of an argv one that runs where the registry is reached. Raises PushError for the first
    image that the registry did not take, or stored under another digest.

    One repository gets its images one after another: the reference registry writes the link of a layer in
    place, and a second push that shares the layer may find that file empty and be refused (DIGEST_INVALID).
    """
    crane = find_crane()
    options = ["--insecure"] if plain_http else []

    def push(image: tuple[str, Built]) -> str:
        reference, built = image
        command = [str(crane), "push", *options, str(built.layout), in_registry(reference, registry)]
        done = subprocess.run(inside(command), capture_output=True, text=True, check=False)
        if done.returncode != 0:
            reason = (done.stderr.strip().splitlines() or ["crane said nothing"])[-1]
            raise PushError(f"{reference} was not pushed to {registry}: {reason}")
        pushed = done.stdout.strip()
        if not pushed.endswith(built.digest):
            raise PushError(f"{reference}: the registry has {pushed}, the cache has {built.digest}")
        return pushed

    queues: dict[str, list[tuple[str, Built]]] = {}
    for image in images:
        queues.setdefault(repository(image[0]), []).append(image)
    with ThreadPoolExecutor(_PARALLEL) as pool:
        return list(
            chain.from_iterable(pool.map(lambda queue: [push(image) for image in queue], queues.values()))
        )
