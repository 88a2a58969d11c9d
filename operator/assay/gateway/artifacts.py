"""`GET /v1/artifacts/{digest}`: what an earlier try left to be judged, for the try that judges it again."""

from aiohttp import web

from assay.adapters.s3 import AsyncS3Store, NoSuchKey
from assay.api.evidence import ARTIFACTS
from assay.core.names import try_prefix
from assay.gateway.auth import Caller
from assay.gateway.errors import Code, GatewayError
from assay.gateway.streams import relay


class Artifacts:
    """Serves the artefacts of one try of the caller's own attempt, and nothing else that lies in S3.

    Which try that is stands in the caller's try spec, below the attempt that its identity names. The caller
    recomputes the digest.
    """

    def __init__(self, store: AsyncS3Store) -> None:
        self._store = store

    async def get(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """The tar file. 403 for an ordinary try and for any digest but the spec's, 404 when S3 lacks it."""
        judged = caller.spec.verify_only
        if judged is None:
            raise GatewayError(
                403, Code.FORBIDDEN, "this try runs an agent: it may read no other try's artefacts"
            )
        if request.match_info["digest"] != judged.artifacts_digest:
            raise GatewayError(
                403, Code.FORBIDDEN, f"the artefacts that this try judges are {judged.artifacts_digest}"
            )
        identity = caller.spec.identity.model_copy(update={"try_number": judged.try_number})
        key = try_prefix(caller.spec.storage, identity, judged.pod_uid) + ARTIFACTS
        try:
            async with self._store.stream_get(caller.bucket, key) as stored:
                response = web.StreamResponse(headers={"Content-Type": "application/x-tar"})
                response.content_length = stored.size
                return await relay(request, response, stored.chunks())
        except NoSuchKey:
            message = (
                f"s3://{caller.bucket}/{key} does not exist: try {judged.try_number} cannot be judged again"
            )
            raise GatewayError(404, Code.UNKNOWN_ARTIFACTS, message) from None
