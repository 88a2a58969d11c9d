"""From the bytes of `manifest.json` in S3 to a checked manifest: what is outside is bad until validated."""

from collections.abc import Iterable

from pydantic import ValidationError

from assay.api.evidence import Manifest
from assay.core.canonical import digest_of_bytes
from assay.core.outcomes import TABLE
from assay.core.record import ManifestBad, ManifestFound

MANIFEST_NAME = "manifest.json"
MAX_MANIFEST_BYTES = 32 << 20


def read_manifest(content: bytes) -> ManifestFound | ManifestBad:
    """The manifest. Strict: a reward that is a bool, a string, NaN or above 1 makes it bad (BAR 5)."""
    try:
        manifest = Manifest.read_leniently(content, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"])) or "(root)"
        return ManifestBad(f"field {place}: {first['msg']}")
    return ManifestFound(manifest, digest_of_bytes(content))


def best_manifest(found: Iterable[ManifestFound | ManifestBad]) -> ManifestFound | ManifestBad | None:
    """Of the manifests of several pods of one try the one that counts: a retained one, else the newest."""
    whole = [one for one in found if isinstance(one, ManifestFound)]
    if whole:
        return max(whole, key=_rank)
    return next(iter(found), None)


def _rank(one: ManifestFound) -> tuple[bool, float, str]:
    result = one.manifest.result
    return TABLE[result.outcome].retained, result.finished_at.timestamp(), one.digest
