"""The example tasks, and containers of their images."""

import os

from tests.images.conftest import built_image

# Harbor's agents import litellm, which otherwise asks the network for its price table.
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")

__all__ = ["built_image"]
