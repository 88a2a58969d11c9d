"""`PUT /v1/evidence/{path}`: one file of a try, streamed into S3 below the try's own prefix."""

import asyncio

from aiohttp import web
from pydantic import TypeAdapter, ValidationError

from assay.adapters.s3 import AsyncS3Store, NoSuchKey, StoredObject
from assay.adapters.s3_upload import PART_BYTES
from assay.api.base import Digest, RelativePath
from assay.api.evidence import EvidenceFile
from assay.gateway.auth import Caller
from assay.gateway.errors import Code, GatewayError
from assay.gateway.metrics import Metrics
from assay.gateway.settings import GatewaySettings
from assay.gateway.streams import body_chunks, refuse_larger

MANIFEST = "manifest.json"
DIGEST_HEADER = "Content-Digest-Sha256"
KEY_BYTES = 1024
"""S3's own limit of a key."""

_path = TypeAdapter[str](RelativePath)
_digest = TypeAdapter[str](Digest)


class Evidence:
    """Takes evidence until the manifest seals it. There is no way to read any back."""

    def __init__(self, store: AsyncS3Store, settings: GatewaySettings, metrics: Metrics) -> None:
        self._store, self._settings, self._metrics = store, settings, metrics
        self._places = asyncio.Semaphore(settings.uploads)

    async def put(self, request: web.Request, caller: Caller) -> web.Response:
        """Answers EvidenceFile with what was counted here. A repeated PUT replaces the file."""
        path = _checked_path(request.match_info["path"], caller)
        wanted = _wanted_digest(request)
        refuse_larger(request, self._settings.evidence_file_bytes)
        if request.content_length is None or request.content_length > PART_BYTES:
            # Only lest a large body be sent in vain: what counts is the look before the object appears.
            await self._refuse_if_sealed(caller)

        async def before_publish(stored: StoredObject) -> None:
            _compare(stored, request.content_length, wanted)
            await self._refuse_if_sealed(caller)

        async with self._places:
            body = body_chunks(
                request, self._settings.evidence_file_bytes, self._settings.upload_idle_seconds
            )
            stored = await self._store.put_stream(
                caller.bucket, caller.prefix + path, body, before_publish=before_publish
            )
        self._metrics.evidence_bytes.inc(stored.size)
        answer = EvidenceFile(path=path, size=stored.size, sha256=stored.sha256)
        return web.Response(text=answer.model_dump_json(), content_type="application/json")

    async def _refuse_if_sealed(self, caller: Caller) -> None:
        try:
            await self._store.head(caller.bucket, caller.prefix + MANIFEST)
        except NoSuchKey:
            return
        raise GatewayError(
            409, Code.EVIDENCE_SEALED, "the manifest of this try exists: its evidence is final"
        )


def _checked_path(raw: str, caller: Caller) -> str:
    try:
        path = _path.validate_python(raw)
    except ValidationError as error:
        reason = error.errors(include_input=False, include_url=False)[0]["msg"]
        raise GatewayError(400, Code.BAD_REQUEST, f"evidence path: {reason}") from None
    if path == MANIFEST:
        raise GatewayError(400, Code.BAD_REQUEST, f"{MANIFEST} is written by PUT /v1/manifest")
    if len((caller.prefix + path).encode()) > KEY_BYTES:
        raise GatewayError(400, Code.BAD_REQUEST, f"evidence path: S3 allows no key above {KEY_BYTES} bytes")
    return path


def _wanted_digest(request: web.Request) -> str | None:
    given = request.headers.get(DIGEST_HEADER)
    if given is None:
        return None
    try:
        return _digest.validate_python(given)
    except ValidationError:
        message = f"{DIGEST_HEADER}: must be sha256: and 64 lower-case hexadecimal digits"
        raise GatewayError(400, Code.BAD_REQUEST, message) from None


def _compare(stored: StoredObject, length: int | None, digest: str | None) -> None:
    if length is not None and length != stored.size:
        message = f"Content-Length said {length} bytes, {stored.size} came; nothing was kept"
        raise GatewayError(422, Code.DIGEST_MISMATCH, message)
    if digest is not None and digest != stored.sha256:
        message = f"{DIGEST_HEADER} said {digest}, the body has {stored.sha256}; nothing was kept"
        raise GatewayError(422, Code.DIGEST_MISMATCH, message)
