"""`PUT /v1/manifest`: the record of a try, checked against caller and stored evidence, written last."""

import hashlib

from aiohttp import web
from pydantic import ValidationError

from assay.adapters.s3 import AsyncS3Store, NoSuchKey, ObjectExists, StorageRejected
from assay.api.base import written_by_newer
from assay.api.evidence import Manifest
from assay.gateway.auth import Caller
from assay.gateway.errors import Code, GatewayError, outdated
from assay.gateway.evidence import MANIFEST
from assay.gateway.settings import MIB, GatewaySettings
from assay.gateway.streams import body_bytes

MANIFEST_BYTES = 16 * MIB
NAMED_IN_ERRORS = 10


class Manifests:
    """Writes a manifest once. The same bytes again succeed, other bytes never do."""

    def __init__(self, store: AsyncS3Store, settings: GatewaySettings) -> None:
        self._store, self._idle_seconds = store, settings.upload_idle_seconds

    async def put(self, request: web.Request, caller: Caller) -> web.Response:
        """Answers `{"digest": "sha256:…"}` of the bytes as they were sent and stored."""
        body = await body_bytes(request, MANIFEST_BYTES, self._idle_seconds)
        if not await self._exists_as(body, caller):
            manifest = _parsed(body)
            _check_identity(manifest, caller)
            await self._check_files(manifest, caller)
            await self._write(body, caller)
        return web.json_response({"digest": f"sha256:{hashlib.sha256(body).hexdigest()}"})

    async def _exists_as(self, body: bytes, caller: Caller) -> bool:
        try:
            stored = await self._store.get_bytes(caller.bucket, caller.prefix + MANIFEST, MANIFEST_BYTES)
        except NoSuchKey:
            return False
        if stored != body:
            raise GatewayError(409, Code.MANIFEST_CONFLICT, "this try has another manifest already")
        return True

    async def _write(self, body: bytes, caller: Caller) -> None:
        key = caller.prefix + MANIFEST
        try:
            await self._store.put_bytes(
                caller.bucket, key, body, content_type="application/json", only_if_absent=True
            )
        except ObjectExists:
            # Another replica was faster with the same request, repeated.
            await self._exists_as(body, caller)
        except StorageRejected:
            # Some stores lack conditional writes (cases.md G7); the look before the write has to do there.
            await self._store.put_bytes(caller.bucket, key, body, content_type="application/json")

    async def _check_files(self, manifest: Manifest, caller: Caller) -> None:
        listed = await self._store.list_keys(caller.bucket, caller.prefix)
        sizes = {info.key.removeprefix(caller.prefix): info.size for info in listed}
        wrong = []
        for file in manifest.files:
            size = sizes.get(file.path)
            if size != file.size:
                found = "absent" if size is None else f"{size} bytes"
                wrong.append(f"{file.path} ({found}, manifest says {file.size} bytes)")
        if wrong:
            more = f" and {len(wrong) - NAMED_IN_ERRORS} more" if len(wrong) > NAMED_IN_ERRORS else ""
            message = f"not stored as the manifest says: {', '.join(wrong[:NAMED_IN_ERRORS])}{more}"
            raise GatewayError(422, Code.EVIDENCE_MISSING, message)


def _parsed(body: bytes) -> Manifest:
    try:
        manifest = Manifest.read_leniently(body)
    except ValidationError as error:
        if written_by_newer(error):
            raise outdated("the manifest", error) from None
        problems = error.errors(include_input=False, include_url=False)[:NAMED_IN_ERRORS]
        lines = [f"{'.'.join(str(part) for part in p['loc']) or 'manifest'}: {p['msg']}" for p in problems]
        raise GatewayError(422, Code.BAD_MANIFEST, "; ".join(lines)) from None
    paths = [file.path for file in manifest.files]
    if len(set(paths)) != len(paths) or MANIFEST in paths:
        raise GatewayError(422, Code.BAD_MANIFEST, f"files: a path occurs twice, or {MANIFEST} lists itself")
    return manifest


def _check_identity(manifest: Manifest, caller: Caller) -> None:
    spec = caller.spec
    expected = {
        "identity": (manifest.identity, spec.identity),
        "podUid": (manifest.pod_uid, caller.pod_uid),
        "ledgerDigest": (manifest.ledger_digest, spec.ledger_digest),
        "variantFingerprint": (manifest.variant_fingerprint, spec.variant_fingerprint),
        "archiveDigest": (manifest.archive_digest, spec.task.archive_digest),
        "verifyOnly": (manifest.verify_only, spec.verify_only),
    }
    wrong = [field for field, (given, own) in expected.items() if given != own]
    if wrong:
        message = f"the manifest belongs to another try: {', '.join(wrong)} differ from the pod's own"
        raise GatewayError(403, Code.FORBIDDEN, message)
