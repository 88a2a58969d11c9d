"""What the three resources have in common: metadata, references, rules that the CRD generator reads."""

from typing import Annotated, Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from pydantic.alias_generators import to_camel

from assay.api.base import Digest, DNSLabel, Record
from assay.api.conditions import Condition

ResourceName = DNSLabel
"""Name of a Ledger, AgentVariant or EvaluationRun: at most 63 characters, so that it fits a label."""

BoundedDigest = Annotated[Digest, Field(max_length=71)]

DecimalString = Annotated[str, StringConstraints(pattern=r"^(0|[1-9][0-9]*)(\.[0-9]+)?$", max_length=24)]
"""A number that is not whole, as a decimal string: the API has no floats."""

Ratio = Annotated[str, StringConstraints(pattern=r"^(0|1)(\.[0-9]+)?$", max_length=12)]
"""A share between 0 and 1, as a decimal string."""

UID = Annotated[str, StringConstraints(pattern=r"^[0-9a-f-]{36}$", max_length=36)]
Bucket = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$", max_length=63)]
ObjectKey = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*$", min_length=1, max_length=512)
]
Count = Annotated[int, Field(ge=0, le=2_147_483_647)]


def list_map(*keys: str) -> dict[str, Any]:
    """Schema extras of a list whose entries are keyed, so that server-side apply merges them."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}


def rules(*validations: tuple[str, str]) -> dict[str, Any]:
    """Schema extras with CEL rules, each a pair of rule and message."""
    return {"x-kubernetes-validations": [{"rule": rule, "message": text} for rule, text in validations]}


Conditions = Annotated[
    list[Condition], Field(max_length=16, json_schema_extra=list_map("type"), default_factory=list)
]


class SpecPart(Record):
    """Part of a `spec`; a field that this version does not know is refused, never ignored."""


class StatusPart(Record):
    """Part of a `status`; fields of a newer operator are ignored."""

    model_config = ConfigDict(extra="ignore")


class NameReference(SpecPart):
    """The name of a resource in the same namespace."""

    name: ResourceName = Field(description="name of the resource, in the namespace of the one that names it.")


class ObjectMeta(BaseModel):
    """The part of `metadata` that Assay reads."""

    model_config = ConfigDict(
        frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True, serialize_by_alias=True
    )

    name: str
    namespace: str
    uid: str = ""
    generation: int = 1
    resource_version: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)


class PrinterColumn(BaseModel):
    """One column of `kubectl get`; `path` is a JSONPath."""

    name: str
    type: str
    path: str
    description: str
    priority: int = 0


def condition_column(type_: str, description: str, priority: int = 0) -> PrinterColumn:
    """A column that shows the status of the condition of that type."""
    return PrinterColumn(
        name=type_,
        type="string",
        path=f'.status.conditions[?(@.type=="{type_}")].status',
        description=description,
        priority=priority,
    )


class Names(BaseModel):
    """Names of a kind as its CRD declares them."""

    kind: str
    plural: str
    singular: str
    short: str


class Resource(BaseModel):
    """A custom resource as the API server gives it."""

    model_config = ConfigDict(
        frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True, serialize_by_alias=True
    )

    names: ClassVar[Names]
    columns: ClassVar[tuple[PrinterColumn, ...]]
    root_rules: ClassVar[tuple[tuple[str, str], ...]] = ()

    metadata: ObjectMeta

    @classmethod
    def parse(cls, body: Any) -> Self:
        """The resource of a body as Kubernetes sends it; raises pydantic's ValidationError."""
        return cls.model_validate(body)


def status_document(status: StatusPart) -> dict[str, Any]:
    """The status as it is written to the API server: camelCase, absent where unknown."""
    return status.model_dump(mode="json", by_alias=True, exclude_none=True)


def status_patch(before: StatusPart, after: StatusPart) -> dict[str, Any]:
    """JSON merge patch (RFC 7386) by which a stored `before` becomes `after`.

    All of `after` is in it, and every field that fell away, at any depth, as None: what is not named stays.
    """
    return _patch(status_document(before), status_document(after))


def _patch(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    patch: dict[str, Any] = {name: None for name in before if name not in after}
    for name, value in after.items():
        old = before.get(name)
        patch[name] = _patch(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return patch
