"""The runner image of a benchmark: Assay's own with the ledger's pin in it."""

import re

from assay.core.ledger import LedgerFile

PIN_IN_IMAGE = "/opt/assay/ledger.pin"
"""Where the runner looks for its pin."""
_BY_DIGEST = re.compile(r"[^@\s]+@sha256:[0-9a-f]{64}")


class RunnerImageError(ValueError):
    """The image to build on cannot be used."""


def containerfile(base: str, ledger: LedgerFile) -> str:
    """A Containerfile on top of the runner image `base`. Raises RunnerImageError unless it is by digest."""
    if not _BY_DIGEST.fullmatch(base):
        raise RunnerImageError(f"{base} does not name a digest: write it as name@sha256:…")
    harness = ledger.header.harness
    labels = {
        "dev.assay.ledger.digest": ledger.digest,
        "dev.assay.ledger.harness-tree": harness.tree if harness else "",
    }
    stated = " ".join(f'{name}="{value}"' for name, value in labels.items() if value)
    return f"FROM {base}\nCOPY --chmod=0444 ledger.pin {PIN_IN_IMAGE}\nLABEL {stated}\n"
