"""What every record on disk has in common."""

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints
from pydantic.alias_generators import to_camel

Digest = Annotated[str, StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$")]
"""A content digest, `sha256:` and 64 lower-case hexadecimal digits."""

ImageByDigest = Annotated[str, StringConstraints(pattern=r"^[^@\s]+@sha256:[0-9a-f]{64}$", max_length=512)]
"""An image reference that names its digest: `registry/name[:tag]@sha256:…`."""

DNSLabel = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=63)]
DNSName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", max_length=253)]


def _relative(path: str) -> str:
    parts = path.split("/")
    if any(part in ("", ".", "..") for part in parts) or "\\" in path or not path.isprintable():
        raise ValueError("must be a relative path without empty, '.' or '..' parts or control characters")
    return path


RelativePath = Annotated[str, StringConstraints(min_length=1, max_length=700), AfterValidator(_relative)]
"""A slash-separated path without a leading slash, `.`/`..` parts or control characters."""

SchemaVersion = Literal[1]


class Record(BaseModel):
    """A frozen record with camelCase names on disk; unknown fields are refused."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        populate_by_name=True,
        serialize_by_alias=True,
        allow_inf_nan=False,
    )


class VersionedRecord(Record):
    """A record that stands alone on disk and therefore names its schema version."""

    schema_version: SchemaVersion = Field(default=1, description="Version of this record's schema.")
