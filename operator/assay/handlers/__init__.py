"""The operator process: gather, call the core, apply. What to do is decided in `assay.core` alone."""
