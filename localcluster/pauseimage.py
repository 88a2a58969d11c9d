"""Makes and pushes the image that holds a pod's namespaces open: one static binary and nothing else.

Usage: python -m localcluster.pauseimage CRANE BINARY REFERENCE
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def main(crane: str, binary: str, reference: str) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        archive = Path(scratch) / "image.tar"
        write_image(Path(binary).read_bytes(), archive, reference)
        subprocess.run([crane, "push", archive, reference], check=True)


def write_image(binary: bytes, archive: Path, reference: str) -> None:
    """Writes an image archive as `docker save` does; the same binary gives the same bytes."""
    layer = _tar({"pause": binary}, mode=0o755)
    configuration = json.dumps(
        {
            "architecture": ARCHITECTURES.get(platform.machine(), platform.machine()),
            "os": "linux",
            "config": {"Entrypoint": ["/pause"], "User": "65535:65535"},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
        }
    ).encode()
    manifest = json.dumps(
        [{"Config": "config.json", "RepoTags": [reference], "Layers": ["layer.tar"]}]
    ).encode()
    archive.write_bytes(
        _tar({"config.json": configuration, "layer.tar": layer, "manifest.json": manifest}, mode=0o644)
    )


def _tar(files: dict[str, bytes], mode: int) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            entry.mode = mode
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


if __name__ == "__main__":
    main(*sys.argv[1:])
