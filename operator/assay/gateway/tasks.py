"""`GET /v1/tasks/{digest}`: the archive of the caller's own task, streamed out of S3."""

from collections.abc import AsyncIterator

from aiohttp import web

from assay.adapters.s3 import AsyncS3Store, NoSuchKey, ObjectStream
from assay.core.names import archive_key
from assay.gateway.auth import Caller
from assay.gateway.errors import Code, GatewayError
from assay.gateway.metrics import Metrics
from assay.gateway.streams import relay


class TaskArchives:
    """Serves an archive by its digest, which the caller recomputes; a cut answer cannot pass for whole."""

    def __init__(self, store: AsyncS3Store, metrics: Metrics) -> None:
        self._store, self._metrics = store, metrics

    async def get(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """The tar file. 403 for any digest but the caller's own, 404 when S3 lacks it."""
        digest = request.match_info["digest"]
        if digest != caller.spec.task.archive_digest:
            raise GatewayError(
                403, Code.FORBIDDEN, f"the task of this try is {caller.spec.task.archive_digest}"
            )
        storage = caller.spec.storage
        bucket, key = storage.archive_bucket or storage.bucket, archive_key(storage, digest)
        try:
            async with self._store.stream_get(bucket, key) as archive:
                response = web.StreamResponse(headers={"Content-Type": "application/x-tar"})
                response.content_length = archive.size
                return await relay(request, response, self._counted(archive))
        except NoSuchKey:
            message = f"s3://{bucket}/{key} does not exist: publish the ledger with `assay ledger publish`"
            raise GatewayError(404, Code.UNKNOWN_ARCHIVE, message) from None

    async def _counted(self, archive: ObjectStream) -> AsyncIterator[bytes]:
        async for chunk in archive.chunks():
            self._metrics.archive_bytes.inc(len(chunk))
            yield chunk
