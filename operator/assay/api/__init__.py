"""Models of everything that is written down: the three resources and every record on disk."""
