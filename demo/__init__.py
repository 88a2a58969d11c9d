"""The demonstration: a real evaluation, from an empty cluster to the score vector.

`python -m demo run` is what `make demo` calls. End-to-end tests install and watch through the same modules.
"""
