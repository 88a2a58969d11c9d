"""What every record on disk has in common."""

from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
)
from pydantic.alias_generators import to_camel

import assay

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

_NEWEST = 1


def _not_newer(version: object) -> object:
    if isinstance(version, int) and version > _NEWEST:
        raise ValueError(
            f"version {version} was written by a newer Assay; this one ({assay.__version__}) reads up to "
            f"{_NEWEST}: upgrade it"
        )
    return version


SchemaVersion = Annotated[Literal[1], BeforeValidator(_not_newer)]


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

    @classmethod
    def read_leniently(cls, content: bytes | str, *, strict: bool = False) -> Self:
        """Read JSON whose writer may be newer, and leave out the fields that this version does not know.

        Only for a reader that hands nothing on and measures nothing by it; docs/decisions/0011 says which
        records those are. Raises ValidationError.
        """
        return cls.model_validate_json(content, strict=strict, extra="ignore")


class VersionedRecord(Record):
    """A record that stands alone on disk and therefore names its schema version."""

    schema_version: SchemaVersion = Field(default=1, description="Version of this record's schema.")


def written_by_newer(error: ValidationError) -> bool:
    """Whether the record has a schema version that only a newer Assay reads."""
    return any(each["type"] == "value_error" and each["loc"] == ("schemaVersion",) for each in error.errors())


def first_problem(error: ValidationError) -> str:
    """The first thing that is wrong with a record, naming the field."""
    first = error.errors(include_url=False, include_input=False)[0]
    field = ".".join(map(str, first["loc"])) or "(root)"
    if first["type"] == "extra_forbidden":
        return (
            f"field {field} is not known to this version of Assay ({assay.__version__}): a newer one wrote it"
        )
    return f"field {field}: {first['msg']}"
