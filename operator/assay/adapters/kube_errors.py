"""What can go wrong with a request to the API server, and how its answer tells."""

from collections.abc import Mapping
from typing import Any

import msgspec


class KubeError(Exception):
    """Any failure of a request to the API server."""


class KubeUnavailable(KubeError):
    """No answer, 429 or 5xx: the same request may succeed later, after `retry_after` seconds.

    Unless `untouched`, it may have been carried out all the same: it is the answer that was lost.
    """

    def __init__(self, message: str, retry_after: float = 1.0, *, untouched: bool = False) -> None:
        super().__init__(message)
        self.retry_after, self.untouched = retry_after, untouched


class KubeRefused(KubeError):
    """The API server refused the request; `status` is HTTP's, `reason` Kubernetes'."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status, self.reason = status, reason


class WatchExpired(KubeError):
    """The version to watch from is too old: list again."""


class Status(msgspec.Struct):
    """What the API server says of a failure."""

    message: str = ""
    reason: str = ""
    code: int = 0


decode_status = msgspec.json.Decoder(Status).decode


def failure(status: int, content: bytes, headers: Mapping[str, str]) -> KubeError:
    """The error of an answer of 400 or more."""
    try:
        said = decode_status(content)
    except msgspec.DecodeError:
        said = Status(content[:500].decode(errors="replace"))
    if status == 429 or status >= 500:
        pause = headers.get("Retry-After", "")
        return KubeUnavailable(
            f"the API server answered {status}: {said.message}",
            float(pause) if pause.isdigit() else 1.0,
            untouched=status == 429,
        )
    return KubeRefused(status, said.reason, said.message)


def no_answer(error: Exception, *, untouched: bool = False) -> KubeUnavailable:
    """The error of a request that was not answered; `untouched` where it cannot have arrived."""
    words = str(error) or type(error).__name__
    return KubeUnavailable(f"the API server did not answer: {words}", untouched=untouched)


def decoded(content: bytes) -> dict[str, Any]:
    """The object of an answer. Raises KubeUnavailable where it is none: something else answered."""
    try:
        found: dict[str, Any] = msgspec.json.decode(content, type=dict)
    except msgspec.DecodeError as error:
        raise KubeUnavailable(f"what answered is no API server: {error}") from error
    return found
