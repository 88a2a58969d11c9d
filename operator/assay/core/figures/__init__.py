"""Every published number as a pure function of recorded attempts; docs/figures.md explains each."""
