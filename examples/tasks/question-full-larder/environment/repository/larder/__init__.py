"""A cache with a fixed number of shelves."""

from larder.larder import Larder, LarderFull

__all__ = ["Larder", "LarderFull"]
