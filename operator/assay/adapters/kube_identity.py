"""The API server as a pod sees it: its own service account, JSON in and out, nothing else.

Enough to ask who a caller is and to read one object; watching is not its business.
"""

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import aiohttp
from pydantic import Field, model_validator

from assay.adapters.environment import EnvironmentSettings

JSON = dict[str, Any]


class KubeUnavailable(Exception):
    """The API server did not answer, or answered that it is overloaded or broken."""


class KubeRefused(Exception):
    """The API server answered with an error; `status` is HTTP's."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class KubeSettings(EnvironmentSettings):
    """Where the API server is and where our credentials lie; the defaults are those of any pod."""

    url: str = Field(default="", alias="ASSAY_KUBE_URL", pattern=r"^(https?://.+)?$")
    host: str = Field(default="", alias="KUBERNETES_SERVICE_HOST")
    port: int = Field(default=443, alias="KUBERNETES_SERVICE_PORT")
    credentials: Path = Field(
        default=Path("/var/run/secrets/kubernetes.io/serviceaccount"),
        alias="ASSAY_KUBE_CREDENTIALS",
        description="Folder with the files `token`, `ca.crt` and `namespace`.",
    )
    timeout_seconds: float = Field(default=10, gt=0, le=300, alias="ASSAY_KUBE_TIMEOUT_SECONDS")

    @model_validator(mode="after")
    def _has_an_address(self) -> Self:
        if not (self.url or self.host):
            raise ValueError("run in a pod, or set ASSAY_KUBE_URL to the address of the API server")
        return self

    @property
    def base_url(self) -> str:
        """Address of the API server without a trailing slash."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return (self.url or f"https://{host}:{self.port}").rstrip("/")

    @property
    def namespace(self) -> str:
        """The namespace that this pod runs in."""
        return (self.credentials / "namespace").read_text().strip()


@dataclass(frozen=True, slots=True)
class Reviewed:
    """What TokenReview says of a token that is valid."""

    username: str
    pod_name: str | None
    pod_uid: str | None


class ApiServer:
    """A thin asynchronous client. Raises KubeUnavailable or KubeRefused."""

    def __init__(self, settings: KubeSettings) -> None:
        self._settings = settings
        self._session: aiohttp.ClientSession | None = None

    async def get(self, path: str) -> JSON:
        """One object, by its path such as `/api/v1/namespaces/n/pods/p`."""
        return await self._request("GET", path)

    async def review(self, token: str, audience: str) -> Reviewed | None:
        """Who holds `token`, or None when it is not valid for `audience` now."""
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token, "audiences": [audience]},
        }
        answer = await self._request("POST", "/apis/authentication.k8s.io/v1/tokenreviews", body)
        status = answer.get("status", {})
        # An authenticator that knows nothing of audiences leaves them out; such a token proves nothing here.
        if not status.get("authenticated") or audience not in status.get("audiences", []):
            return None
        user = status.get("user", {})
        extra = user.get("extra") or {}
        return Reviewed(
            username=user.get("username", ""),
            pod_name=_only(extra.get("authentication.kubernetes.io/pod-name")),
            pod_uid=_only(extra.get("authentication.kubernetes.io/pod-uid")),
        )

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    async def _request(self, method: str, path: str, body: JSON | None = None) -> JSON:
        session = self._connected()
        headers = {"Authorization": f"Bearer {self._token()}", "Accept": "application/json"}
        try:
            async with session.request(
                method, self._settings.base_url + path, json=body, headers=headers
            ) as answer:
                content = await answer.json(content_type=None)
                status = answer.status
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise KubeUnavailable(
                f"the API server did not answer: {error or type(error).__name__}"
            ) from error
        if status == 429 or status >= 500:
            raise KubeUnavailable(f"the API server answered {status}: {_message(content)}")
        if status >= 400:
            raise KubeRefused(status, _message(content))
        return dict(content)

    def _token(self) -> str:
        # Read each time: the kubelet replaces a projected token long before it expires.
        try:
            return (self._settings.credentials / "token").read_text().strip()
        except OSError as error:
            raise KubeUnavailable(f"no service account token: {error}") from error

    def _connected(self) -> aiohttp.ClientSession:
        if self._session is None:
            ca = self._settings.credentials / "ca.crt"
            verify: ssl.SSLContext | bool = True
            if ca.exists():
                verify = ssl.create_default_context(cafile=ca)
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=verify, limit=32),
                timeout=aiohttp.ClientTimeout(total=self._settings.timeout_seconds),
            )
        return self._session


def _only(values: Any) -> str | None:
    return str(values[0]) if isinstance(values, list) and len(values) == 1 else None


def _message(content: Any) -> str:
    return str(content.get("message", content)) if isinstance(content, dict) else str(content)[:500]
