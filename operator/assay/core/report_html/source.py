"""Where a page comes from: the report with the names of its parts, and the addresses of its files."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from assay.api.report import Report


@dataclass(frozen=True, slots=True)
class FileAddress:
    """A file that the page was made of: its address (s3://… or a path) and the digest of its bytes."""

    address: str
    digest: str


@dataclass(frozen=True)
class Source:
    """A report, and the files that it and its attempts were read from."""

    report: Report
    file: FileAddress
    attempts: Sequence[FileAddress] = ()

    @cached_property
    def document(self) -> Any:
        """The report as parsed JSON: what the page's pointers point into."""
        return json.loads(self.report.model_dump_json(by_alias=True))

    def at(self, pointer: str) -> Any:
        """The value at a JSON pointer of the report. Raises LookupError where there is none."""
        found = self.document
        for part in pointer.split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            found = found[int(name)] if isinstance(found, list) else found[name]
        return found


def pointer(*parts: str | int) -> str:
    """The JSON pointer of a path."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)
