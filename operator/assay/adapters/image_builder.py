"""Builds and pushes images with buildah or docker, whichever is installed.

Two builds of one context are as equal as the Dockerfile lets them be: with buildah every time in the image is
1970. What a Dockerfile fetches from the network is beyond reach, so an image that the registry has already
under the digest of its context is taken from there, never built again.
"""

import json
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from assay.adapters.registry import Registry

_SHOWN = 2000


class ImageBuildError(Exception):
    """An image cannot be built or pushed; the message ends with the tool's own last words."""


@dataclass(frozen=True, slots=True)
class ImageBuilder:
    """A tool that builds, and the registry that it pushes to."""

    tool: Literal["buildah", "docker"]
    registry: Registry

    @classmethod
    def present(cls, registry: Registry) -> "ImageBuilder":
        """The first tool that is installed. Raises ImageBuildError where there is none."""
        tools: tuple[Literal["buildah", "docker"], ...] = ("buildah", "docker")
        for tool in tools:
            if shutil.which(tool):
                return cls(tool, registry)
        raise ImageBuildError(
            "neither buildah nor docker is installed: install one, or build the images yourself"
        )

    @property
    def host(self) -> str:
        """`host:port`, as image names have it."""
        address = self.registry.address
        return urlsplit(address).netloc if "://" in address else address

    def image(self, path: str, tag: str, context: Path, dockerfile: Path) -> str:
        """`host/path:tag@sha256:…`, built and pushed unless the registry has it."""
        name = f"{self.host}/{path}:{tag}"
        if found := self.registry.resolve(name):
            return found
        if self.tool == "buildah":
            return f"{name}@{self._buildah(name, context, dockerfile)}"
        return f"{name}@{self._docker(name, context, dockerfile)}"

    def _buildah(self, name: str, context: Path, dockerfile: Path) -> str:
        plain = ["--tls-verify=false"] if self.registry.address.startswith("http://") else []
        _run("buildah", "bud", *plain, "--timestamp", "0", "-t", name, "-f", str(dockerfile), str(context))
        with tempfile.NamedTemporaryFile() as digest:
            _run("buildah", "push", *plain, "--digestfile", digest.name, name, f"docker://{name}")
            return Path(digest.name).read_text().strip()

    def _docker(self, name: str, context: Path, dockerfile: Path) -> str:
        _run("docker", "build", "-t", name, "-f", str(dockerfile), str(context))
        _run("docker", "push", name)
        facts = json.loads(_run("docker", "inspect", name))
        repository = name.rpartition(":")[0]
        digests: list[str] = facts[0].get("RepoDigests") or []
        for one in digests:
            if one.startswith(f"{repository}@"):
                return one.rpartition("@")[2]
        raise ImageBuildError(f"docker knows no digest of {name} after its push")


def _run(*command: str) -> str:
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "0"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        words = (done.stderr or done.stdout).strip()[-_SHOWN:]
        raise ImageBuildError(f"{' '.join(command)} ended with exit status {done.returncode}: {words}")
    return done.stdout
