"""The made-up suite of the tests, and results that complete it."""

from pathlib import Path
from typing import Any

from assay.api.attempt_record import AttemptRecord
from assay.api.suite import SuiteDefinition
from assay.core.ledger import LedgerFile
from assay.core.suites import parse_suite
from tests.unit.report.samples import attempts, ledger_file

FILE = Path(__file__).with_name("made-up-suite.yaml")
FIRST = {"a": "x", "b": "y"}
SECOND = {"c": "x", "d": "y", "e": "z", "f": "w"}


def made_up() -> SuiteDefinition:
    """The suite of `made-up-suite.yaml`."""
    return parse_suite(FILE.read_bytes(), FILE.name)


def ledgers() -> dict[str, LedgerFile]:
    """A ledger for each component."""
    return {
        "first": ledger_file(FIRST, benchmark="first", repetitions=2),
        "second": ledger_file(SECOND, benchmark="second", repetitions=2),
    }


def complete(variant: str, first: list[float], second: list[float], **changes: Any) -> list[AttemptRecord]:
    """Every attempt of both components; each task gets one list of rewards."""
    found = []
    for name, file in ledgers().items():
        rewards = first if name == "first" else second
        found += attempts(
            dict.fromkeys(file.by_id, rewards), variant, ledger=name, ledger_digest=file.digest, **changes
        )
    return found
