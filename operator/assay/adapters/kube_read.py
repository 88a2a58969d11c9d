"""One request after the other, by the standard library.

For commands that read one thing: importing aiohttp takes longer than all they do (benchmarks/cli_start.py).
What watches, changes or asks for many things at once uses adapters.kube.
"""

from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import urlencode, urlsplit

from assay.adapters.kube_config import KubeConfig
from assay.adapters.kube_errors import decoded, failure, no_answer


class KubeReader:
    """Reads from one API server. Raises `KubeError`s only."""

    def __init__(self, config: KubeConfig, seconds: float) -> None:
        """`seconds` is how long to wait for the server's next word."""
        self._config, self._seconds = config, seconds

    def get(self, path: str, parameters: Mapping[str, str] | None = None) -> dict[str, Any]:
        """One object, or one list of few objects."""
        try:
            status, content, headers = self._ask(path + (f"?{urlencode(parameters)}" if parameters else ""))
        except (OSError, HTTPException) as error:
            raise no_answer(error) from error
        if status >= 400:
            raise failure(status, content, headers)
        return decoded(content)

    def _ask(self, target: str) -> tuple[int, bytes, Mapping[str, str]]:
        server = urlsplit(self._config.server)
        connection = self._connection(server.hostname or "", server.port, server.scheme == "https")
        headers = {"Accept": "application/json", "User-Agent": "assay"}
        if token := self._config.bearer():
            headers["Authorization"] = f"Bearer {token}"
        try:
            connection.request("GET", server.path.rstrip("/") + target, headers=headers)
            with connection.getresponse() as answer:
                return answer.status, answer.read(), dict(answer.headers.items())
        finally:
            connection.close()

    def _connection(self, host: str, port: int | None, secured: bool) -> HTTPConnection:
        if not secured:
            return HTTPConnection(host, port, timeout=self._seconds)
        return HTTPSConnection(host, port, timeout=self._seconds, context=self._config.ssl_context())
