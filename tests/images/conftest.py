"""Images as the build tool makes them, built first where they are not up to date."""

import subprocess
import sys
from collections.abc import Callable
from functools import cache

import pytest

from images.catalogue import ROOT, select
from images.inputs import inputs_of
from images.rootfs import BASES
from images.store import Built, Store, cache_folder


@pytest.fixture(scope="session")
def built_image() -> Callable[[str], Built]:
    """A function from an image's name to the image; it builds what is not up to date."""

    @cache
    def find(name: str) -> Built:
        subprocess.run([sys.executable, "-m", "images", "build", name], cwd=ROOT, check=True)
        (image,) = select([name])
        built = Store(cache_folder()).find(image.name, inputs_of(image, BASES[image.base].reference))
        assert built is not None, f"{name} changed while it was built"
        return built

    return find
