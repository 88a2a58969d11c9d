"""Asks an image registry which digest a tag stands for now."""

import http.client
import re
from dataclasses import dataclass
from urllib.parse import urlsplit

_MANIFESTS = ", ".join(
    (
        "application/vnd.oci.image.index.v1+json",
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
        "application/vnd.docker.distribution.manifest.v2+json",
    )
)
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_TIMEOUT_SECONDS = 20


class RegistryError(Exception):
    """The registry cannot be asked; the message says which and why."""


@dataclass(frozen=True, slots=True)
class Registry:
    """A registry that mirrors published images under their path without the host, as the local one does.

    `address` is `host:port` (https), or a URL with `http://` or `https://`.
    """

    address: str

    def resolve(self, reference: str) -> str | None:
        """`reference@sha256:…` for a reference with a tag; None if the registry has no such image.

        The name stays as published: nodes are configured to ask the mirror for it.
        """
        name, tag = split_reference(reference)
        digest = self._digest(_path_without_host(name), tag)
        return None if digest is None else f"{reference}@{digest}"

    def _digest(self, path: str, tag: str) -> str | None:
        connection = self._connection()
        try:
            connection.request("HEAD", f"/v2/{path}/manifests/{tag}", headers={"Accept": _MANIFESTS})
            answer = connection.getresponse()
            answer.read()
        except OSError as error:
            raise RegistryError(f"registry {self.address} cannot be reached: {error}") from error
        finally:
            connection.close()
        if answer.status == http.client.NOT_FOUND:
            return None
        digest = answer.getheader("Docker-Content-Digest", "")
        if answer.status != http.client.OK or not _DIGEST.fullmatch(digest):
            raise RegistryError(
                f"registry {self.address} answered {answer.status} {answer.reason} for {path}:{tag}, "
                f"with digest {digest or 'missing'}"
            )
        return digest

    def _connection(self) -> http.client.HTTPConnection:
        url = urlsplit(self.address if "://" in self.address else f"https://{self.address}")
        if url.scheme not in {"http", "https"} or not url.hostname:
            raise RegistryError(f"registry {self.address!r} is neither host:port nor a http(s) URL")
        kind = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
        return kind(url.hostname, url.port, timeout=_TIMEOUT_SECONDS)


def split_reference(reference: str) -> tuple[str, str]:
    """Name and tag of an image reference without digest; the tag is `latest` if there is none."""
    head, _, last = reference.rpartition("/")
    last, _, tag = last.partition(":")
    return (f"{head}/{last}" if head else last), tag or "latest"


def _path_without_host(name: str) -> str:
    first, _, rest = name.partition("/")
    is_host = rest and ("." in first or ":" in first or first == "localhost")
    return rest if is_host else name
