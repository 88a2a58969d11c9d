"""What a cluster is made of: each component as data, started and watched by the supervisor."""

from localcluster.components.model import Component, Settings
from localcluster.components.plan import REMOVABLE, components

__all__ = ["REMOVABLE", "Component", "Settings", "components"]
