"""Reads suite files."""

import yaml
from pydantic import ValidationError

from assay.api.suite import SuiteDefinition


class SuiteError(ValueError):
    """A suite file cannot be used; the message names the file, the field and the fix."""


def parse_suite(content: bytes, file: str) -> SuiteDefinition:
    """The suite of a file's bytes. Raises SuiteError."""
    try:
        document = yaml.safe_load(content)
    except yaml.YAMLError as error:
        raise SuiteError(f"{file}: is not YAML: {error}") from error
    try:
        return SuiteDefinition.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(map(str, first["loc"]))
        message = first["msg"].removeprefix("Value error, ")
        raise SuiteError(f"{file}: {f'{field}: ' if field else ''}{message}") from error
