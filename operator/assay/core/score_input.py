"""What a report is computed from beside the records: ledgers, suite and run records, and how they fit."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from assay.api.attempt_record import Criterion, LedgerFacts, RunRecord
from assay.api.ledger_history import DriftReference
from assay.api.ledger_plan import Plan
from assay.api.suite import Component, SuiteDefinition
from assay.core.collection import Collection, Pair
from assay.core.figures.observations import LedgerTasks, TaskFacts
from assay.core.ledger import LedgerFile
from assay.core.observe import Worth

SENTINEL_AGENTS = ("oracle", "nop")
"""Harbor's agents that apply the reference solution, and that do nothing."""


class ReportRefusedError(ValueError):
    """No report can be made of the input; the message names the field and the fix."""


@dataclass(frozen=True, slots=True)
class ScoredLedger:
    """A ledger of the records: its tasks, and the file where one was given."""

    name: str
    digest: str | None
    tasks: LedgerTasks
    file: LedgerFile | None = None

    @property
    def plan(self) -> Plan:
        """The plan of the file; without a file the default one."""
        return self.file.header.plan if self.file else Plan()

    @property
    def benchmark(self) -> tuple[str, str] | None:
        """The benchmark's name and version; None without a ledger file."""
        return (self.file.header.benchmark, self.file.header.version) if self.file else None


@dataclass(frozen=True, slots=True)
class ScoreInput:
    """Everything that `make_report` reads. `ledgers` are by name, `components` by the component's name."""

    collection: Collection
    ledgers: Mapping[str, ScoredLedger]
    runs: Mapping[str, RunRecord] = field(default_factory=dict)
    """By the run's UID."""
    suite: SuiteDefinition | None = None
    components: Mapping[str, str] = field(default_factory=dict)
    """Component of the suite to the name of its ledger."""
    baseline: str | None = None
    reference: Sequence[Collection] = ()
    """Records of the reference runs: the baseline's earlier results on the same ledgers."""

    def with_run(self, record: RunRecord, reference: Sequence[Collection]) -> "ScoreInput":
        """The same input with this record of a run, and with these records of reference runs."""
        return replace(self, runs={**self.runs, record.uid: record}, reference=reference)

    def component_of(self, ledger: str) -> Component | None:
        """The suite's component that a ledger is; None without a suite or outside it."""
        if self.suite is None:
            return None
        return next(
            (self.suite.components[name] for name, at in self.components.items() if at == ledger), None
        )

    def worth_on(self, ledger: str) -> Worth:
        """What suite and plan make of attempts on a ledger."""
        component = self.component_of(ledger)
        return Worth(
            flagged_is_zero=component is not None and component.reward_hacking_judged,
            fallback_scored=self.suite is None or self.suite.rules.fallback_scored,
            blocked_is_zero=self.ledgers[ledger].plan.refusals.after_reruns == "countsAsZero",
        )

    def judged_on(self, ledger: str) -> set[str]:
        """Criteria that a judge must have read attempts on a ledger for, by suite and plan."""
        found = {judge.criterion for judge in self.ledgers[ledger].plan.judges}
        component = self.component_of(ledger)
        if component is not None and component.reward_hacking_judged:
            found.add(Criterion.REWARD_HACKING.value)
        if component is not None and self.suite is not None and self.suite.rules.model_refusals_judged:
            found.add(Criterion.REFUSAL.value)
        return found

    @property
    def drift_threshold(self) -> float:
        """The strictest of the plans' thresholds: the tests of all ledgers are one family."""
        return min(float(ledger.plan.drift_alpha) for ledger in self.ledgers.values())

    @property
    def references(self) -> dict[str, DriftReference]:
        """What the runs' records say of the reference for drift, by ledger."""
        return {one.ledger: one for run in self.runs.values() for one in run.references}

    def run_of(self, pair: Pair) -> RunRecord | None:
        """The run record of a row."""
        found = self.collection.pairs.get(pair)
        return self.runs.get(found.run_uid or "") if found else None

    @property
    def variants(self) -> list[str]:
        """Variants of records and run records: the baseline first, the others by name."""
        names = {pair.variant for pair in self.collection.pairs}
        names |= {variant for run in self.runs.values() for variant in run.variants}
        return sorted(names, key=lambda name: (name != self.baseline, name))

    def sentinel(self, variant: str) -> str | None:
        """The name of the sentinel agent that a variant is; None for any other."""
        agents = {
            agent
            for pair, found in self.collection.pairs.items()
            if pair.variant == variant
            for agent, _ in found.agents
        }
        return next((name for name in SENTINEL_AGENTS if agents == {name}), None)


def scored_ledgers(
    collection: Collection, files: Iterable[LedgerFile], runs: Iterable[RunRecord]
) -> dict[str, ScoredLedger]:
    """The ledgers that the records name. Without a file the tasks are those that the records hold.

    Raises ReportRefusedError for a file that no record names, and where records and runs contradict a file.
    """
    by_digest = {file.digest: file for file in files}
    facts = {ledger.name: ledger for run in runs for ledger in run.ledgers}
    found = {}
    for name, digest in sorted(collection.ledger_digests.items()):
        file = by_digest.pop(digest or "", None)
        found[name] = (
            _with_file(name, file, facts.get(name)) if file else _from_records(name, digest, collection)
        )
    for digest, file in by_digest.items():
        raise ReportRefusedError(
            f"no record is of ledger {file.header.benchmark} {file.header.version} ({digest}); the records "
            "name " + ", ".join(f"{name} ({one})" for name, one in collection.ledger_digests.items())
        )
    _refuse_mixed_versions(found.values())
    return found


def _with_file(name: str, file: LedgerFile, facts: LedgerFacts | None) -> ScoredLedger:
    excluded = {one.task for one in file.header.plan.exclusions}
    tasks = tuple(
        TaskFacts(
            task=task.id,
            cluster=task.cluster,
            category=task.category,
            language=task.language,
            difficulty=task.difficulty.value,
        )
        for task in file.tasks
        if task.id not in excluded
    )
    repetitions = facts.repetitions if facts else file.header.plan.repetitions
    return ScoredLedger(name, file.digest, LedgerTasks(name, tasks, repetitions), file)


def _from_records(name: str, digest: str | None, collection: Collection) -> ScoredLedger:
    attempts = {
        key for pair, found in collection.pairs.items() if pair.ledger == name for key in found.attempts
    }
    tasks = tuple(TaskFacts(task, cluster=task) for task in sorted({task for task, _ in attempts}))
    repetitions = 1 + max(repetition for _, repetition in attempts)
    return ScoredLedger(name, digest, LedgerTasks(name, tasks, repetitions))


def _refuse_mixed_versions(ledgers: Iterable[ScoredLedger]) -> None:
    versions: dict[str, tuple[str, str]] = {}
    for ledger in ledgers:
        if ledger.benchmark is None:
            continue
        benchmark, version = ledger.benchmark
        other, known = versions.setdefault(benchmark, (ledger.name, version))
        if other != ledger.name:
            raise ReportRefusedError(
                f"ledgers {other} and {ledger.name} are both of {benchmark}, versions {known} and {version}: "
                "one table has one version of a benchmark; score them apart"
            )


def match_components(suite: SuiteDefinition, ledgers: Mapping[str, ScoredLedger]) -> dict[str, str]:
    """The ledger of each component of the suite that has one; components without are left out.

    Raises ReportRefusedError where a ledger is of another version of a component's benchmark.
    """
    found = {}
    for name, component in suite.components.items():
        for ledger in ledgers.values():
            if ledger.benchmark is None or ledger.benchmark[0] != component.benchmark:
                continue
            if ledger.benchmark[1] != component.version:
                raise ReportRefusedError(
                    f"ledger {ledger.name} is {component.benchmark} {ledger.benchmark[1]}, suite "
                    f"{suite.label} "
                    f"has {component.version}: no table mixes versions; take the suite version that "
                    f"it belongs to"
                )
            found[name] = ledger.name
    return found
