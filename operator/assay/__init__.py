"""Assay evaluates coding agents on Kubernetes so that somebody else can repeat the measurement."""

__version__ = "0.1.0"
