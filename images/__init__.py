"""Builds the project's container images with buildah or docker, and pushes them into a registry.

`python -m images build` builds what changed, `push` copies the results into a registry, `list --json` says
which digest each image has. Results lie in `$ASSAY_CACHE/images` (default `~/.cache/assay/images`).
"""


class ImagesError(Exception):
    """What a user can put right; the message says what is wrong and how."""
