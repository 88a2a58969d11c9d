"""The evidence of a run as it lies in S3, read and checked without the operator."""

import hashlib
import json
import re
from dataclasses import dataclass
from typing import Any

from assay.adapters.s3 import S3Store
from assay.api.evidence import Manifest

_MANIFEST = "manifest.json"
_LIMIT = 512 << 20
# Harbor writes a manifest.json of its own among the artefacts.
_OF_A_TRY = re.compile(r"/try-\d+/[0-9a-f-]{36}/manifest\.json$")


@dataclass(frozen=True)
class TryEvidence:
    """What one try left. `prefix` ends in a slash; `manifest` is the record."""

    store: S3Store
    bucket: str
    prefix: str
    manifest: Manifest

    def read(self, path: str) -> bytes:
        """The bytes of one file of the try."""
        return self.store.get_bytes(self.bucket, self.prefix + path, _LIMIT)

    def text(self, path: str) -> str:
        return self.read(path).decode(errors="replace")

    def paths(self) -> set[str]:
        """The files that the manifest lists."""
        return {file.path for file in self.manifest.files}

    def everything(self) -> bytes:
        """All files that the manifest lists, one after the other."""
        return b"\n".join(self.read(file.path) for file in self.manifest.files)

    def calls(self) -> list[dict[str, Any]]:
        """The records of model calls, in order."""
        segments = sorted(path for path in self.paths() if path.startswith("calls/"))
        return [json.loads(line) for path in segments for line in self.text(path).splitlines()]

    def assert_complete(self) -> None:
        """Every listed file has the size and digest that the manifest states; nothing else exists."""
        for file in self.manifest.files:
            body = self.read(file.path)
            assert len(body) == file.size, file.path
            assert f"sha256:{hashlib.sha256(body).hexdigest()}" == file.sha256, file.path
        stored = {
            info.key.removeprefix(self.prefix) for info in self.store.list_keys(self.bucket, self.prefix)
        }
        assert stored == self.paths() | {_MANIFEST}
        expected = {"trial/result.json", "trial/trial.log", "runner.log", "isolation.json", "try-spec.json"}
        assert expected <= self.paths()


def of_run(store: S3Store, bucket: str, run_prefix: str) -> list[TryEvidence]:
    """The evidence of every try of a run that has a manifest, in key order."""
    found = []
    for info in store.list_keys(bucket, run_prefix):
        if _OF_A_TRY.search(info.key):
            body = store.get_bytes(bucket, info.key, _LIMIT)
            prefix = info.key.removesuffix(_MANIFEST)
            found.append(TryEvidence(store, bucket, prefix, Manifest.model_validate_json(body)))
    return found
