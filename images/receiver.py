"""A registry on loopback that takes one image from a builder into the store.

A push asks first which layers are there already, so after a small change only a small layer travels. Both
builders can push; their ways to write an image to a folder differ and always write all of it.
"""

import hashlib
import json
import re
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from images import ImagesError

_BLOB = re.compile(r"/v2/image/blobs/(sha256:[0-9a-f]{64})")
_UPLOAD = re.compile(r"/v2/image/blobs/uploads/([0-9a-f]{32})")
_MANIFEST = re.compile(r"/v2/image/manifests/(latest|sha256:[0-9a-f]{64})")
_PIECE = 1024 * 1024
# buildah remembers by registry address which compressed layer stands for which of its own. At another address
# it compresses every layer again, so this port is taken where it is free.
_PREFERRED_PORT = 48_731


class ReceiverError(ImagesError):
    """A builder pushed something that is no image."""


class Receiver(ThreadingHTTPServer):
    """Blobs go to `blobs/sha256/HEX`, checked; manifests are kept by tag and digest."""

    daemon_threads = True

    def __init__(self, blobs: Path, port: int) -> None:
        self.blobs = blobs
        self.manifests: dict[str, bytes] = {}
        (blobs / "sha256").mkdir(parents=True, exist_ok=True)
        super().__init__(("127.0.0.1", port), _Handler)

    @property
    def reference(self) -> str:
        """The name to push to."""
        return f"127.0.0.1:{self.server_port}/image:latest"

    def blob(self, digest: str) -> Path:
        """Where a blob lies."""
        return self.blobs / digest.replace(":", "/")

    def image_manifest(self) -> bytes:
        """The manifest of the pushed image; of an index, that of its first image that is no attestation."""
        manifest = self.manifests.get("latest")
        if manifest is None:
            raise ReceiverError("the builder ended without pushing a manifest")
        if "manifests" not in (content := json.loads(manifest)):
            return manifest
        images = [entry for entry in content["manifests"] if entry.get("platform", {}).get("os") != "unknown"]
        if not images or images[0]["digest"] not in self.manifests:
            raise ReceiverError("the builder pushed an index without an image")
        return self.manifests[images[0]["digest"]]


@contextmanager
def receiver(blobs: Path) -> Iterator[Receiver]:
    """A receiver that serves until the block ends."""
    with _bound(blobs) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def _bound(blobs: Path) -> Receiver:
    try:
        return Receiver(blobs, _PREFERRED_PORT)
    except OSError:
        return Receiver(blobs, 0)


class _Handler(BaseHTTPRequestHandler):
    """The part of the registry protocol that a push uses."""

    protocol_version = "HTTP/1.1"
    server: Receiver

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing: the builder reports what goes wrong."""

    def do_GET(self) -> None:
        self._answer(HTTPStatus.OK if self.path == "/v2/" else HTTPStatus.NOT_FOUND)

    def do_HEAD(self) -> None:
        found = _BLOB.fullmatch(self.path)
        if found and (blob := self.server.blob(found[1])).is_file():
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Length", str(blob.stat().st_size))
            self.send_header("Docker-Content-Digest", found[1])
            self.end_headers()
        else:
            self._answer(HTTPStatus.NOT_FOUND)

    def do_POST(self) -> None:
        self._discard_body()
        if urlsplit(self.path).path != "/v2/image/blobs/uploads/":
            return self._answer(HTTPStatus.NOT_FOUND)
        return self._accepted(uuid.uuid4().hex, 0)

    def do_PATCH(self) -> None:
        upload = _UPLOAD.fullmatch(self.path)
        if not upload:
            self._discard_body()
            return self._answer(HTTPStatus.NOT_FOUND)
        with self._partial(upload[1]).open("ab") as file:
            for piece in self._body():
                file.write(piece)
            size = file.tell()
        return self._accepted(upload[1], size)

    def do_PUT(self) -> None:
        url = urlsplit(self.path)
        if upload := _UPLOAD.fullmatch(url.path):
            return self._finish_upload(upload[1], parse_qs(url.query).get("digest", [""])[0])
        body = b"".join(self._body())
        manifest = _MANIFEST.fullmatch(url.path)
        if not manifest:
            return self._answer(HTTPStatus.NOT_FOUND)
        digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
        self.server.manifests[manifest[1]] = self.server.manifests[digest] = body
        return self._answer(HTTPStatus.CREATED, ("Docker-Content-Digest", digest))

    def _finish_upload(self, upload: str, digest: str) -> None:
        partial = self._partial(upload)
        with partial.open("ab") as file:
            for piece in self._body():
                file.write(piece)
        with partial.open("rb") as file:
            found = f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
        if found != digest:
            partial.unlink()
            return self._answer(HTTPStatus.BAD_REQUEST)
        partial.rename(self.server.blob(digest))
        return self._answer(HTTPStatus.CREATED, ("Docker-Content-Digest", digest))

    def _partial(self, upload: str) -> Path:
        return self.server.blobs / f"upload-{upload}"

    def _accepted(self, upload: str, size: int) -> None:
        location = f"/v2/image/blobs/uploads/{upload}"
        self._answer(HTTPStatus.ACCEPTED, ("Location", location), ("Range", f"0-{max(size - 1, 0)}"))

    def _answer(self, status: HTTPStatus, *headers: tuple[str, str]) -> None:
        self.send_response(status)
        for name, value in (*headers, ("Content-Length", "0")):
            self.send_header(name, value)
        self.end_headers()

    def _discard_body(self) -> None:
        for _ in self._body():
            pass

    def _body(self) -> Iterator[bytes]:
        """The request's body in pieces, whether it has a length or comes in chunks."""
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            while size := int(self.rfile.readline().partition(b";")[0], 16):
                yield from self._exactly(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            yield from self._exactly(int(self.headers.get("Content-Length", "0")))

    def _exactly(self, size: int) -> Iterator[bytes]:
        while size:
            piece = self.rfile.read(min(size, _PIECE))
            if not piece:
                raise ConnectionError("the builder ended in the middle of a blob")
            size -= len(piece)
            yield piece
