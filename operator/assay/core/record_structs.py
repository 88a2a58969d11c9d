"""Attempt records decoded many times faster than pydantic can, by structs made from the very model.

The structs take what `AttemptRecord` takes, field by field, from its annotations: there is no second schema.
A line that they refuse is read by pydantic, which says what is wrong with it or takes it after all.
"""

from collections.abc import Mapping
from datetime import datetime
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin

import msgspec
from annotated_types import Ge, Le, MaxLen, MinLen
from pydantic import BaseModel, StringConstraints
from pydantic.fields import FieldInfo

from assay.api.attempt_record import AttemptRecord, check_retained

_PLAIN = (str, int, float, bool, datetime, NoneType)


class RecordNotPlain(ValueError):
    """The line is no record, or one that only pydantic can read."""


def decode_record(line: bytes) -> AttemptRecord:
    """A struct with the attributes of `AttemptRecord`. Raises RecordNotPlain, without words for users.

    Structs are read like records; they have none of pydantic's methods.
    """
    try:
        record = cast(AttemptRecord, _decoder().decode(line))
        check_retained(record.retained, record.outcome, record.reward, record.flags)
    except (msgspec.MsgspecError, ValueError) as error:
        raise RecordNotPlain(str(error)) from error
    return record


def as_struct(record: AttemptRecord) -> AttemptRecord:
    """The struct of a record; structs as they are."""
    if not isinstance(record, BaseModel):
        return record
    return decode_record(record.model_dump_json(by_alias=True, exclude_unset=True).encode())


def content_of(struct: AttemptRecord) -> bytes:
    """The content of a struct: the same bytes for the same record, however its line was written."""
    return _encoder.encode(struct)


_encoder = msgspec.json.Encoder(order="deterministic")


@cache
def _decoder() -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(_struct(AttemptRecord))


@cache
def _struct(model: type[BaseModel]) -> type[msgspec.Struct]:
    fields = [_field(name, info) for name, info in model.model_fields.items()]
    return msgspec.defstruct(
        model.__name__,
        fields,
        rename={name: info.alias or name for name, info in model.model_fields.items()},
        forbid_unknown_fields=model.model_config.get("extra") == "forbid",
        frozen=True,
        kw_only=True,
        omit_defaults=True,
        gc=False,
    )


def _field(name: str, info: FieldInfo) -> tuple[str, Any] | tuple[str, Any, Any]:
    type_ = _type(info.annotation, info.metadata)
    if info.is_required():
        return name, type_
    default = info.get_default(call_default_factory=True)
    if isinstance(default, BaseModel):
        # Structs are frozen: all records may share one.
        return name, type_, msgspec.field(default=_struct(type(default))())
    if isinstance(default, list | dict):
        return name, type_, msgspec.field(default_factory=type(default))
    return name, type_, msgspec.field(default=default)


def _type(annotation: Any, metadata: list[Any]) -> Any:
    """The annotation as msgspec has it. Raises TypeError for what this code does not know."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _type(inner[0], [*inner[1:], *metadata])
    if origin in (Union, UnionType):
        # A limit of an optional field is one of its value.
        return Union[tuple(_type(one, [] if one is NoneType else metadata) for one in inner)]  # noqa: UP007
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return _struct(annotation)
    if origin in (list, dict):
        return _limited(origin[tuple(_type(one, []) for one in inner)], metadata)
    if origin is Literal:
        return annotation  # whatever is checked beside, its values are all that can pass
    if isinstance(annotation, type) and issubclass(annotation, (Enum, *_PLAIN)):
        return _limited(annotation, metadata)
    raise TypeError(f"AttemptRecord: no struct field is known for {annotation!r}")


def _limited(type_: Any, metadata: list[Any]) -> Any:
    limits: dict[str, Any] = {}
    for one in metadata:
        limits |= _limits(one)
    return Annotated[type_, msgspec.Meta(**limits)] if limits else type_


def _limits(constraint: Any) -> Mapping[str, Any]:
    match constraint:
        case FieldInfo():
            return {key: value for one in constraint.metadata for key, value in _limits(one).items()}
        case Ge(ge=value):
            return {"ge": value}
        case Le(le=value):
            return {"le": value}
        case MinLen(min_length=value):
            return {"min_length": value}
        case MaxLen(max_length=value):
            return {"max_length": value}
        case StringConstraints(pattern=str(pattern)):
            sizes = {"min_length": constraint.min_length, "max_length": constraint.max_length}
            # Python's `$` also matches before a last newline, pydantic's does not.
            exact = f"{pattern.removesuffix('$')}\\Z" if pattern.endswith("$") else pattern
            return {"pattern": exact, **{name: size for name, size in sizes.items() if size is not None}}
    raise TypeError(f"AttemptRecord: no struct constraint is known for {constraint!r}")
