"""A suite: the benchmarks that one index is computed over, and its rules. Data, in `suites/*.yaml`."""

from datetime import date
from typing import Annotated, Self

from pydantic import Field, StringConstraints, model_validator

from assay.api.base import DNSName, Record, VersionedRecord

SuiteName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=100)]
SuiteVersion = Annotated[str, StringConstraints(pattern=r"^[0-9A-Za-z][0-9A-Za-z.-]*$", max_length=50)]


class Component(Record):
    """One benchmark of a suite. The index weighs components equally, whatever their number of tasks."""

    benchmark: str = Field(min_length=1, max_length=100, description="As ledgers name it in their header.")
    version: str = Field(min_length=1, max_length=50)
    title: str = Field(min_length=1, max_length=100)
    tasks: Annotated[int, Field(ge=1, le=100_000)]
    reward_hacking_judged: bool = Field(
        default=False, description="Passing attempts are read by a judge; a flagged one scores 0."
    )
    judge: str | None = Field(
        default=None, max_length=200, description="The judge that the benchmark's own scoring asks."
    )


class Rules(Record):
    """What the suite makes of attempts that did not simply run through."""

    repetitions: Annotated[int, Field(ge=1, le=100)]
    refusal_reruns: Annotated[int, Field(ge=0, le=50)] = Field(
        description="Further tries of an attempt that was blocked; then it scores 0."
    )
    fallback_scored: bool = Field(
        default=True, description="Whether an attempt that another model finished keeps its score."
    )
    model_refusals_judged: bool = Field(
        default=False, description="Whether a judge reads the attempts for refusals by the model itself."
    )
    reward_hacking_judge: str | None = Field(default=None, max_length=200)


class VersionNote(Record):
    """One version of the suite in its history."""

    version: SuiteVersion
    released: date | None = Field(default=None, description="None where no day is known.")
    known: str = Field(default="", max_length=200, description="What is known of the day, in words.")
    components: list[str] = Field(min_length=1, max_length=20)
    change: str = Field(min_length=1, max_length=500)


class SuiteDefinition(VersionedRecord):
    """A suite file. A new suite, or a new version of one, is a new file and no code."""

    name: SuiteName
    version: SuiteVersion
    title: str = Field(min_length=1, max_length=200)
    source: str = Field(min_length=1, max_length=500, description="Where the definition is published.")
    components: Annotated[dict[DNSName, Component], Field(min_length=1, max_length=20)]
    rules: Rules
    history: list[VersionNote] = Field(min_length=1, max_length=100)

    @property
    def label(self) -> str:
        """`name@version`, as runs and reports name it."""
        return f"{self.name}@{self.version}"

    @model_validator(mode="after")
    def _history_holds_the_version(self) -> Self:
        if self.version not in {note.version for note in self.history}:
            raise ValueError(f"history has no entry for version {self.version}: say what it changed and when")
        benchmarks = [(one.benchmark, one.version) for one in self.components.values()]
        if len(set(benchmarks)) < len(benchmarks):
            raise ValueError("components: a benchmark is listed twice; it would weigh twice in the index")
        return self
