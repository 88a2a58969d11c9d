"""The shape of a component, the settings that all of them share, and the conditions they wait for."""

from __future__ import annotations

import http.client
import socket
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from localcluster.layout import Layout, Profile

PROBE_TIMEOUT_S = 1.0


class Settings(BaseModel):
    """What `up` decided, handed to the supervisor in settings.json."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    profile: Profile
    root: Path
    #: Tool name to the folder of its binaries.
    binaries: dict[str, Path]
    cni_plugins: Path | None = None
    without: tuple[str, ...] = ()
    s3_access_key: str = ""
    s3_secret_key: str = ""
    #: Whether the supervisor may use root's means: cgroups and mounts.
    privileged: bool = True

    @property
    def layout(self) -> Layout:
        return Layout(self.root)

    def binary(self, tool: str, name: str | None = None) -> str:
        return str(self.binaries[tool] / (name or tool))


@dataclass(frozen=True)
class Component:
    """One step of a start, taken when everything in `after` is ready.

    With `argv` it is a process, which must live on; with `once` it must end with status 0, and that is its
    readiness. Without `argv` it is nothing but the condition `ready`.
    """

    name: str
    argv: Sequence[str] = ()
    #: Asked several times a second until it is true; an OSError or ApiError counts as false.
    ready: Callable[[], bool] = lambda: True
    after: Sequence[str] = ()
    environment: dict[str, str] = field(default_factory=dict)
    once: bool = False


def http_ok(port: int, path: str, host: str = "127.0.0.1", tls: bool = False) -> Callable[[], bool]:
    """The condition that a GET answers 200. Health endpoints with TLS serve a certificate of their own."""

    def ask() -> bool:
        connection = (
            http.client.HTTPSConnection(
                host,
                port,
                timeout=PROBE_TIMEOUT_S,
                context=ssl._create_unverified_context(),  # noqa: S323
            )
            if tls
            else http.client.HTTPConnection(host, port, timeout=PROBE_TIMEOUT_S)
        )
        try:
            connection.request("GET", path)
            return connection.getresponse().status == http.client.OK
        except http.client.HTTPException:
            return False
        finally:
            connection.close()

    return ask


def listens(path: str) -> Callable[[], bool]:
    """The condition that a Unix socket accepts connections."""

    def ask() -> bool:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(PROBE_TIMEOUT_S)
            client.connect(path)
            return True

    return ask
