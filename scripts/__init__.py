"""Generators and other tools of the repository."""
