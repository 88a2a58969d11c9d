"""Opens what scoring reads: records, run records, ledgers, suites, price sheets."""

from collections.abc import Iterable, Iterator
from importlib.resources import files
from pathlib import Path

from pydantic import BaseModel, ValidationError

from assay.api.attempt_record import AttemptRecord, RunRecord
from assay.api.price_sheet import PriceSheet
from assay.api.report import Report
from assay.api.suite import SuiteDefinition
from assay.core.records_file import Place, read_structs
from assay.core.suites import SuiteError, parse_suite


class ScoreFileError(ValueError):
    """A file that scoring needs cannot be used; the message names the file, the field and the fix."""


def stream_records(paths: Iterable[Path]) -> Iterator[tuple[Place, AttemptRecord]]:
    """The records of all files as structs, one line in memory at a time. Raises RecordsError, OSError."""
    for path in paths:
        with path.open("rb") as file:
            yield from read_structs(file, str(path))


def read_run(path: Path) -> RunRecord:
    """A run record. Raises ScoreFileError, OSError."""
    return _document(RunRecord, path, "the run.json that lies beside a run's attempts.jsonl")


def read_price_sheet(path: Path) -> PriceSheet:
    """A price sheet. Raises ScoreFileError, OSError."""
    return _document(PriceSheet, path, "what `assay prices build` writes")


def read_report(path: Path) -> Report:
    """A report. Raises ScoreFileError, OSError."""
    return _document(Report, path, "what `assay score --json` writes")


def packaged_suites() -> dict[str, SuiteDefinition]:
    """The suites that Assay ships, by `name@version`."""
    found = {}
    for file in files("assay").joinpath("suites").iterdir():
        if file.name.endswith(".yaml"):
            suite = parse_suite(file.read_bytes(), file.name)
            found[suite.label] = suite
    return dict(sorted(found.items()))


def find_suite(wanted: str) -> SuiteDefinition:
    """The suite of a file, or the packaged one named `name@version`. Raises SuiteError, OSError."""
    if wanted.endswith((".yaml", ".yml")):
        return parse_suite(Path(wanted).read_bytes(), wanted)
    suites = packaged_suites()
    if wanted not in suites:
        raise SuiteError(f"there is no suite {wanted}; Assay ships {', '.join(suites)}; or give a YAML file")
    return suites[wanted]


def _document[M: BaseModel](kind: type[M], path: Path, what: str) -> M:
    try:
        return kind.model_validate_json(path.read_bytes())
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(map(str, first["loc"]))
        message = first["msg"].removeprefix("Value error, ")
        raise ScoreFileError(
            f"{path}: {f'{field}: ' if field else ''}{message}; the file must be {what}"
        ) from error
