"""The command line: `python -m images build|push|update|list`."""

import json
import os
import time
from typing import Annotated

import typer

from images import ImagesError
from images.catalogue import CatalogueError, Image, select
from images.inputs import Inputs, explain_change, inputs_of
from images.rootfs import BASES
from images.store import Built, Store, cache_folder

app = typer.Typer(add_completion=False, no_args_is_help=True, help=__doc__, pretty_exceptions_enable=False)

Names = Annotated[
    list[str] | None, typer.Argument(help="Images, references or groups (core, examples, deepswe).")
]
BaseOption = Annotated[
    list[str] | None,
    typer.Option("--base", help="NAME=REFERENCE: build on this image. NAME is python, go or deepswe."),
]
BasesOption = Annotated[
    str,
    typer.Option(
        "--bases", envvar="ASSAY_IMAGES_BASES", help="local: made with mmdebstrap. public: pulled by name."
    ),
]
BuilderOption = Annotated[str | None, typer.Option(envvar="ASSAY_IMAGES_BUILDER", help="buildah or docker.")]
RegistryOption = Annotated[
    str | None,
    typer.Option(
        envvar="REGISTRY", help="HOST:PORT, with a path if need be; by default the local cluster's."
    ),
]
PlainOption = Annotated[bool, typer.Option(help="The registry speaks HTTP without TLS.")]


class UsageError(ImagesError):
    """An option has a value that cannot be; the message names it."""


def _chosen_bases(bases: str, overrides: list[str] | None) -> dict[str, str | None]:
    """The reference of each base that is not made locally; None for a local one."""
    if bases not in ("local", "public"):
        raise UsageError(f"--bases {bases}: must be local or public")
    chosen: dict[str, str | None] = {
        name: base.public if bases == "public" else None for name, base in BASES.items()
    }
    for override in overrides or []:
        name, separator, reference = override.partition("=")
        if name not in BASES or not separator or not reference:
            raise UsageError(
                f"--base {override}: must be NAME=REFERENCE, with NAME one of {', '.join(BASES)}"
            )
        chosen[name] = reference
    return chosen


def _inputs(image: Image, bases: dict[str, str | None]) -> Inputs:
    return inputs_of(image, bases[image.base] or BASES[image.base].reference)


def _say(text: str) -> None:
    typer.echo(text, err=True)


@app.command()
def build(
    names: Names = None,
    bases: BasesOption = "local",
    base: BaseOption = None,
    builder: BuilderOption = None,
    force: Annotated[bool, typer.Option(help="Build also what has not changed.")] = False,
) -> None:
    """Builds the images whose inputs changed. ASSAY_IMAGES_VERBOSE=1 shows the builder's own output."""
    chosen = _chosen_bases(bases, base)
    store = Store(cache_folder())
    images = select(names or [])
    missing = [image for image in images if force or not store.find(image.name, _inputs(image, chosen))]
    if missing:
        _build(missing, chosen, builder, store, force)
    if current := len(images) - len(missing):
        _say(f"images: {current} up to date")


def _build(
    images: list[Image], bases: dict[str, str | None], named: str | None, store: Store, force: bool
) -> None:
    # Imported here: a build with nothing to do needs none of it.
    from images.builder import build_image, choose_builder, ensure_base

    builder = choose_builder(named, store)
    for position, image in enumerate(images, start=1):
        prefix = f"images: [{position}/{len(images)}] {image.name}:"
        with store.building(image.name):
            inputs = _inputs(image, bases)
            # Another process may have built it while this one waited.
            if not force and store.find(image.name, inputs):
                continue
            reason = "forced" if force else explain_change(store.last_inputs(image.name), inputs)
            _say(f"{prefix} {reason}; building with {builder.name}")
            started = time.monotonic()
            reference = bases[image.base] or ensure_base(BASES[image.base], builder, store, _say)
            built = build_image(image, inputs, reference, builder, store)
            _say(f"{prefix} {built.digest} in {time.monotonic() - started:.1f} s")
    store.prune()


@app.command()
def push(
    names: Names = None,
    registry: RegistryOption = None,
    plain_http: PlainOption = False,
    bases: BasesOption = "local",
    base: BaseOption = None,
) -> None:
    """Copies built images from the cache into a registry, under their own paths and tags."""
    from images.push import local_registry, push_all, push_new

    chosen = _chosen_bases(bases, base)
    store = Store(cache_folder())
    pairs: list[tuple[str, Built]] = []
    for image in select(names or []):
        built = store.find(image.name, _inputs(image, chosen))
        if built is None:
            raise CatalogueError(
                f"image {image.name} is not built as it is now: run `python -m images build {image.name}`"
            )
        pairs += [(reference, built) for reference in image.references]
    if registry:
        pushed = push_all(pairs, registry, plain_http=plain_http)
    elif os.environ.get("CLUSTER") == "current":
        raise UsageError(
            "CLUSTER=current needs --registry (or REGISTRY): a registry that its nodes pull from"
        )
    elif local := local_registry():
        pushed = push_new(pairs, local)
    else:
        _say("images: no local cluster is up, so nothing is pushed; `make cluster-up images` does both")
        return
    for name in pushed:
        typer.echo(name)


@app.command()
def update(
    names: Names = None,
    registry: RegistryOption = None,
    plain_http: PlainOption = False,
    bases: BasesOption = "local",
    base: BaseOption = None,
    builder: BuilderOption = None,
) -> None:
    """Builds what changed and pushes it: in one process, because mostly there is nothing to do."""
    build(names, bases, base, builder)
    push(names, registry, plain_http, bases, base)


@app.command(name="list")
def list_images(
    names: Names = None,
    as_json: Annotated[bool, typer.Option("--json", help="As a JSON list.")] = False,
    as_map: Annotated[bool, typer.Option("--map", help="As a JSON object: name to NAME@DIGEST.")] = False,
    bases: BasesOption = "local",
    base: BaseOption = None,
) -> None:
    """Lists images with their digests; an image that is not built as its inputs are now has none."""
    rows = _rows(Store(cache_folder()), select(names or []), _chosen_bases(bases, base))
    if as_map:
        unbuilt = sorted({str(row["name"]) for row in rows if row["pinned"] is None})
        if unbuilt:
            raise CatalogueError(
                f"not built as they are now: {', '.join(unbuilt)}; run `python -m images build`"
            )
        typer.echo(json.dumps({row["reference"]: row["pinned"] for row in rows}, indent=2))
        return
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
        return
    for row in rows:
        typer.echo(f"{row['name']:<28} {row['reference']:<52} {row['digest'] or 'not built'}")


def _rows(store: Store, images: list[Image], bases: dict[str, str | None]) -> list[dict[str, str | None]]:
    rows: list[dict[str, str | None]] = []
    for image in images:
        built = store.find(image.name, _inputs(image, bases))
        for reference in image.references:
            repository = reference.rpartition(":")[0]
            rows.append(
                {
                    "name": image.name,
                    "group": image.group,
                    "reference": reference,
                    "digest": built.digest if built else None,
                    "pinned": f"{repository}@{built.digest}" if built else None,
                    "layout": str(built.layout) if built else None,
                }
            )
    return rows


def main() -> None:
    """Runs the command line; a known error is one message and exit status 1."""
    try:
        app()
    except ImagesError as error:
        _say(f"images: {error}")
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()
