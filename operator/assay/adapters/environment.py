"""Settings from environment variables: one pydantic model a program, errors that name the variable."""

import os
from collections.abc import Mapping
from typing import Self

from pydantic import BaseModel, ConfigDict, ValidationError


class BadSettings(Exception):
    """One or more environment variables cannot be used; the message names each and says why."""


class EnvironmentSettings(BaseModel):
    """A frozen model whose fields carry the name of their environment variable as `alias`.

    A variable that is set but empty counts as not set: that is what a chart renders for an absent value.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", validate_by_name=True, validate_by_alias=True)

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> Self:
        """Read the settings from `environ` (by default the process's own). Raises BadSettings."""
        source = os.environ if environ is None else environ
        names = [field.alias for field in cls.model_fields.values() if field.alias]
        try:
            return cls.model_validate({name: source[name] for name in names if source.get(name)})
        except ValidationError as error:
            raise BadSettings(_explain(error)) from None


def _explain(error: ValidationError) -> str:
    # The values are left out on purpose: some of them are credentials, and this text is logged.
    lines = []
    for problem in error.errors(include_input=False, include_url=False):
        name = ".".join(str(part) for part in problem["loc"])
        lines.append(f"{name}: {problem['msg']}" if name else problem["msg"])
    return "; ".join(lines)
