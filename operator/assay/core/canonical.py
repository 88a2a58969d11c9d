"""Canonical JSON (RFC 8785) and the digests over it: the same meaning has the same bytes everywhere."""

import hashlib
from typing import Any

import rfc8785
from pydantic import BaseModel


class CanonicalError(ValueError):
    """A value has no canonical form: a number beyond 2^53, NaN, or something that is not JSON."""


def canonical_json(value: BaseModel | Any) -> bytes:
    """The canonical bytes of a JSON value or a record; a record's absent fields (None) are left out.

    Raises CanonicalError for what RFC 8785 cannot express.
    """
    document = (
        value.model_dump(mode="json", by_alias=True, exclude_none=True)
        if isinstance(value, BaseModel)
        else value
    )
    try:
        return rfc8785.dumps(document)
    except rfc8785.CanonicalizationError as error:
        raise CanonicalError(f"no canonical JSON: {error}") from error


def digest_of_bytes(content: bytes) -> str:
    """`sha256:` and the hexadecimal digest of the bytes."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def digest_of(value: BaseModel | Any) -> str:
    """The digest of a value's canonical JSON."""
    return digest_of_bytes(canonical_json(value))
