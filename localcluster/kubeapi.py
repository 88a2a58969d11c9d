"""The few calls that a start makes to the API server: a full client would cost PID 1 memory and time."""

from __future__ import annotations

import http.client
import json
import ssl
from pathlib import Path
from typing import Any

from localcluster import layout

#: Everything is on this machine: an answer that takes longer is no answer.
TIMEOUT_S = 3.0


class ApiError(Exception):
    """The API server could not be reached or refused; `status` is 0 when it was not reached."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class KubeApi:
    """Speaks to 127.0.0.1 as the cluster's administrator, on a new connection each call."""

    def __init__(self, pki: Path) -> None:
        self._context = ssl.create_default_context(cafile=pki / "ca.crt")
        self._context.load_cert_chain(pki / "admin.crt", pki / "admin.key")

    def text(self, path: str) -> str:
        """The body of a GET; raises ApiError unless the status is 200."""
        return self._call("GET", path, None)

    def get(self, path: str) -> Any:
        """The object at a path; raises ApiError."""
        return json.loads(self.text(path))

    def apply(self, path: str, manifest: dict[str, Any]) -> None:
        """Server-side apply: makes the object or brings it to this content. Raises ApiError."""
        self._call("PATCH", f"{path}?fieldManager=localcluster&force=true", json.dumps(manifest))

    def _call(self, method: str, path: str, body: str | None) -> str:
        connection = http.client.HTTPSConnection(
            "127.0.0.1", layout.API_PORT, timeout=TIMEOUT_S, context=self._context
        )
        try:
            connection.request(
                method, path, body, {"Content-Type": "application/apply-patch+yaml"} if body else {}
            )
            response = connection.getresponse()
            text = response.read().decode(errors="replace")
        except (OSError, http.client.HTTPException) as error:
            raise ApiError(0, f"{method} {path}: {error}") from error
        finally:
            connection.close()
        if response.status not in {200, 201}:
            raise ApiError(response.status, f"{method} {path}: {response.status} {text[:500]}")
        return text
