"""Turns a pydantic model's JSON Schema into the structural schema that a CustomResourceDefinition needs."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

_KEPT = (
    "description",
    "type",
    "format",
    "enum",
    "pattern",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "minItems",
    "maxItems",
    "maxProperties",
    "default",
    "required",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-validations",
)
"""What is kept as it is, in the order in which people want to read it."""
_DROPPED = frozenset({"title", "$defs"})
_RESOLVED = frozenset(
    {"properties", "items", "additionalProperties", "patternProperties", "propertyNames", "const"}
)
_MAX_KEY = 317


class UnsupportedSchemaError(Exception):
    """A model uses something that a structural schema cannot say; the message names the place."""


def structural_schema(model: type[BaseModel], *, defaults: bool) -> dict[str, Any]:
    """The structural schema of a model. With `defaults` false no default is kept (for `status`)."""
    schema = model.model_json_schema(by_alias=True, mode="validation")
    return _Converter(schema.get("$defs", {}), defaults).convert(schema, model.__name__)


class _Converter:
    def __init__(self, definitions: Mapping[str, Any], defaults: bool) -> None:
        self._definitions = definitions
        self._defaults = defaults

    def convert(self, node: Mapping[str, Any], path: str) -> dict[str, Any]:
        node = self._without_null(self._dereferenced(node), path)
        unknown = node.keys() - set(_KEPT) - _DROPPED - _RESOLVED
        if unknown:
            raise UnsupportedSchemaError(f"{path}: a structural schema has no {sorted(unknown)}")
        result = {key: node[key] for key in _KEPT if key in node}
        if "const" in node:
            result["enum"] = [node["const"]]
        if not self._defaults or result.get("default", ...) is None:
            result.pop("default", None)
        if result.get("type") == "integer":
            result["format"] = "int64" if result.get("maximum", 2**63) > 2**31 - 1 else "int32"
        if "properties" in node:
            result["properties"] = {
                name: self.convert(child, f"{path}.{name}") for name, child in node["properties"].items()
            }
        if "items" in node:
            result["items"] = self.convert(node["items"], f"{path}[]")
            result.setdefault("x-kubernetes-list-type", "atomic")
        if result.get("type") == "object" and "properties" not in node:
            self._fill_map(node, result, path)
        return result

    def _dereferenced(self, node: Mapping[str, Any]) -> dict[str, Any]:
        merged = dict(node)
        while "$ref" in merged:
            target = self._definitions[merged.pop("$ref").rsplit("/", 1)[-1]]
            merged = {**target, **merged}
        return merged

    def _without_null(self, node: dict[str, Any], path: str) -> dict[str, Any]:
        if "anyOf" not in node:
            return node
        options = [option for option in node.pop("anyOf") if option.get("type") != "null"]
        if len(options) != 1:
            raise UnsupportedSchemaError(f"{path}: a union of several types has no structural schema")
        return self._dereferenced({**options[0], **node})

    def _fill_map(self, node: Mapping[str, Any], result: dict[str, Any], path: str) -> None:
        """A map: keys cannot have a schema of their own, so their pattern becomes a CEL rule."""
        patterns = node.get("patternProperties", {})
        values = node.get("additionalProperties") or next(iter(patterns.values()), None)
        if not isinstance(values, Mapping):
            raise UnsupportedSchemaError(f"{path}: a map needs one type of value")
        result["additionalProperties"] = self.convert(values, f"{path}{{}}")
        keys = node.get("propertyNames", {})
        limit = keys.get("maxLength", _MAX_KEY)
        checks = [f"key.size() <= {limit}"]
        pattern = keys.get("pattern") or next(iter(patterns), None)
        if pattern:
            checks.append(f"key.matches('{pattern}')")
        wanted = f"of at most {limit} characters" + (f" matching {pattern}" if pattern else "")
        result["x-kubernetes-validations"] = [
            *result.get("x-kubernetes-validations", []),
            {"rule": f"self.all(key, {' && '.join(checks)})", "message": f"keys must be names {wanted}"},
        ]
