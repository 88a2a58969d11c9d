"""`assay`, also installed as `kubectl-assay`."""

from assay.cli.app import main

__all__ = ["main"]
