"""The example tasks, and containers of their images."""

from tests.images.conftest import built_image

__all__ = ["built_image"]
