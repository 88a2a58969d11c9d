"""`/v1/models/{index}/…`: calls to the models that the try declares, with the real key, streamed through."""

import asyncio
import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
from aiohttp import web
from multidict import CIMultiDict

from assay.api.tryspec import ModelTarget
from assay.gateway.auth import Caller
from assay.gateway.errors import Code, GatewayError
from assay.gateway.metrics import Metrics, status_class
from assay.gateway.providers import provider_of, request_headers, response_headers, target_url
from assay.gateway.secrets import ProviderKeys
from assay.gateway.settings import GatewaySettings
from assay.gateway.streams import BrokenStream, body_bytes, relay

ERROR_BODY_BYTES = 1 << 20


class Models:
    """Forwards one call. A caller that goes away ends the call at the provider too."""

    def __init__(self, keys: ProviderKeys, settings: GatewaySettings, metrics: Metrics) -> None:
        self._keys, self._settings, self._metrics = keys, settings, metrics
        self._places: dict[str, asyncio.Semaphore] = {}
        self._session: aiohttp.ClientSession | None = None

    async def forward(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """The provider's answer, unbuffered, whatever its status. Our own errors carry X-Assay-Error."""
        model = _declared(caller, request.match_info["index"])
        url = target_url(model, request.method, request.match_info["rest"])
        key = await self._keys.get(model.secret_ref) if model.secret_ref else None
        body = await body_bytes(
            request, self._settings.model_request_bytes, self._settings.upload_idle_seconds
        )
        self._metrics.model_bytes.labels("sent").inc(len(body))
        headers = request_headers(request.headers.items(), model, key)
        async with self._place(model), self._answer(request, model, url, headers, body) as answer:
            return await self._pass_on(request, model, key, answer)

    async def close(self) -> None:
        """Close the connections to providers."""
        if self._session is not None:
            await self._session.close()

    @asynccontextmanager
    async def _place(self, model: ModelTarget) -> AsyncIterator[None]:
        limit = self._settings.provider_concurrency
        provider = provider_of(model)
        places = self._places.setdefault(provider, asyncio.Semaphore(limit))
        try:
            with self._metrics.model_waiting.track_inprogress():
                async with asyncio.timeout(self._settings.provider_queue_seconds):
                    await places.acquire()
        except TimeoutError:
            message = f"{limit} calls to {provider} are under way already, the limit of this gateway"
            raise GatewayError(429, Code.PROVIDER_BUSY, message, retry_after=5) from None
        try:
            yield
        finally:
            places.release()

    @asynccontextmanager
    async def _answer(
        self, request: web.Request, model: ModelTarget, url: str, headers: CIMultiDict[str], body: bytes
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        try:
            answer = await self._connected().request(
                request.method,
                url,
                params=request.query,
                headers=headers,
                data=io.BytesIO(body) if body else None,
                # A redirect would carry the key to a host that nobody declared.
                allow_redirects=False,
                proxy=self._settings.provider_proxy,
            )
        except TimeoutError as error:
            self._metrics.model_calls.labels(model.api, "timeout").inc()
            message = f"{provider_of(model)} did not answer in time: {error or 'no byte'}"
            raise GatewayError(504, Code.PROVIDER_TIMEOUT, message) from error
        except (aiohttp.ClientError, OSError) as error:
            self._metrics.model_calls.labels(model.api, "unreachable").inc()
            message = f"{provider_of(model)}: {error or type(error).__name__}"
            raise GatewayError(502, Code.PROVIDER_UNREACHABLE, message) from error
        async with answer:
            yield answer

    async def _pass_on(
        self, request: web.Request, model: ModelTarget, key: str | None, answer: aiohttp.ClientResponse
    ) -> web.StreamResponse:
        headers = response_headers(answer.headers.items())
        counted = status_class(answer.status)
        try:
            if answer.status >= 400:
                return await self._pass_error(answer, headers, key)
            response = web.StreamResponse(status=answer.status, reason=answer.reason, headers=headers)
            return await relay(request, response, self._counted(answer))
        except BrokenStream:
            counted = "cut"
            raise
        finally:
            self._metrics.model_calls.labels(model.api, counted).inc()

    async def _pass_error(
        self, answer: aiohttp.ClientResponse, headers: CIMultiDict[str], key: str | None
    ) -> web.Response:
        """Read whole, up to a limit, because some providers quote the key that they refuse."""
        text = bytearray()
        try:
            async for chunk in self._counted(answer):
                text += chunk[: ERROR_BODY_BYTES - len(text)]
        except (aiohttp.ClientError, OSError) as error:
            message = f"the answer ({answer.status}) was cut: {error or type(error).__name__}"
            raise GatewayError(502, Code.PROVIDER_UNREACHABLE, message) from error
        body = bytes(text.replace(key.encode(), b"[provider key]") if key else text)
        headers.popall("Content-Length", None)
        return web.Response(status=answer.status, reason=answer.reason, headers=headers, body=body)

    async def _counted(self, answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
        received = self._metrics.model_bytes.labels("received")
        async for chunk in answer.content.iter_any():
            received.inc(len(chunk))
            yield chunk

    def _connected(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                # Shorter than the 5 s after which common model servers close an idle connection themselves.
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=4),
                timeout=aiohttp.ClientTimeout(
                    total=None,
                    sock_connect=self._settings.provider_connect_seconds,
                    sock_read=self._settings.provider_silence_seconds,
                ),
                auto_decompress=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                skip_auto_headers=("User-Agent", "Accept", "Content-Type"),
            )
        return self._session


def _declared(caller: Caller, index: str) -> ModelTarget:
    models = caller.spec.models
    if not index.isdecimal() or int(index) >= len(models):
        message = f"model {index} is not among the {len(models)} that the variant declares"
        raise GatewayError(403, Code.FORBIDDEN, message)
    return models[int(index)]
