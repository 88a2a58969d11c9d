"""Our own errors, told apart from a provider's by the header `X-Assay-Error`."""

import json
from enum import StrEnum

from aiohttp import web
from pydantic import ValidationError

from assay.adapters import s3
from assay.adapters.kube import KubeError, KubeRefused
from assay.api.base import first_problem

ERROR_HEADER = "X-Assay-Error"


class Code(StrEnum):
    """What went wrong; callers decide by this, never by the message."""

    UNAUTHENTICATED = "Unauthenticated"
    FORBIDDEN = "Forbidden"
    NOT_FOUND = "NotFound"
    METHOD_NOT_ALLOWED = "MethodNotAllowed"
    BAD_REQUEST = "BadRequest"
    TOO_LARGE = "TooLarge"
    UPLOAD_STALLED = "UploadStalled"
    UNKNOWN_ARCHIVE = "UnknownArchive"
    UNKNOWN_ARTIFACTS = "UnknownArtifacts"
    DIGEST_MISMATCH = "DigestMismatch"
    EVIDENCE_SEALED = "EvidenceSealed"
    EVIDENCE_MISSING = "EvidenceMissing"
    BAD_MANIFEST = "BadManifest"
    MANIFEST_CONFLICT = "ManifestConflict"
    SECRET_MISSING = "SecretMissing"  # noqa: S105
    PROVIDER_BUSY = "ProviderBusy"
    PROVIDER_UNREACHABLE = "ProviderUnreachable"
    PROVIDER_TIMEOUT = "ProviderTimeout"
    STORAGE_UNAVAILABLE = "StorageUnavailable"
    STORAGE_DENIED = "StorageDenied"
    STORAGE_REJECTED = "StorageRejected"
    NO_SUCH_BUCKET = "NoSuchBucket"
    KUBERNETES_UNAVAILABLE = "KubernetesUnavailable"
    GATEWAY_OUTDATED = "GatewayOutdated"
    INTERNAL = "Internal"


class GatewayError(Exception):
    """An answer that is an error: HTTP status, code, message, and when to come again (seconds)."""

    def __init__(self, status: int, code: Code, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.retry_after = status, code, message, retry_after

    def response(self) -> web.Response:
        """The HTTP answer."""
        headers = {ERROR_HEADER: self.code.value}
        if self.retry_after is not None:
            headers["Retry-After"] = str(self.retry_after)
        body = json.dumps({"error": {"code": self.code.value, "message": self.message}})
        return web.Response(status=self.status, text=body, content_type="application/json", headers=headers)


def from_storage(error: s3.StorageError) -> GatewayError:
    """503 where waiting may help, also for what an administrator cures: credentials, a missing bucket."""
    message = str(error)
    match error:
        case s3.StorageUnavailable():
            return GatewayError(503, Code.STORAGE_UNAVAILABLE, message, retry_after=2)
        case s3.StorageDenied():
            return GatewayError(503, Code.STORAGE_DENIED, message, retry_after=15)
        case s3.NoSuchBucket():
            return GatewayError(503, Code.NO_SUCH_BUCKET, message, retry_after=15)
        case _:
            return GatewayError(502, Code.STORAGE_REJECTED, message)


def outdated(what: str, error: ValidationError) -> GatewayError:
    """A record of a newer schema version: while the gateway is rolled out, another replica may read it."""
    message = f"{what}: {first_problem(error)}; this gateway is older than what wrote it"
    return GatewayError(503, Code.GATEWAY_OUTDATED, message, retry_after=5)


def from_kube(error: KubeError) -> GatewayError:
    """The API server's failure is never the caller's."""
    if isinstance(error, KubeRefused):
        message = f"the API server refused the gateway ({error.status}): {error}: check the gateway's RBAC"
        return GatewayError(503, Code.KUBERNETES_UNAVAILABLE, message, retry_after=15)
    return GatewayError(503, Code.KUBERNETES_UNAVAILABLE, str(error), retry_after=2)


def from_http(error: web.HTTPException) -> GatewayError:
    """What aiohttp's router says, in our form."""
    codes = {404: Code.NOT_FOUND, 405: Code.METHOD_NOT_ALLOWED, 413: Code.TOO_LARGE}
    return GatewayError(error.status, codes.get(error.status, Code.BAD_REQUEST), error.reason)
