"""Builds a ledger from tasks and a build file, or says for every task what keeps it out."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from pydantic import ValidationError

from assay.api.base import ImageByDigest
from assay.api.ledger_build_file import LedgerBuildFile
from assay.api.ledgerfile import (
    HarnessTree,
    LedgerHeader,
    TaskLine,
    UpstreamManifest,
)
from assay.core.archive import ArchiveRefusedError, Entry, write_archive
from assay.core.clusters import Cluster, ClusterInput, clusters
from assay.core.ledger import normalised_repository, unknown_facts, with_line_digest
from assay.core.ledger_line import ArchiveWriter, ImageResolver, TaskReader, TaskRefused
from assay.core.oracle import OracleRuns
from assay.core.task_checks import Refusal, TaskSource, check_task
from assay.core.task_file import TaskFileError, parse_task_file
from assay.core.upstream import Upstream, compare_upstream, stale_refusal

_STATED = {
    "licence": "licence",
    "difficulty": "difficulty",
    "baseCommit": 'base_commit = "…"',
    "oracle": 'oracle_kind = "tests", "script" or "judge"',
}
"""How the build file states each fact that may be unknown."""


class LedgerRefusedError(Exception):
    """One or more tasks cannot be frozen as they are."""

    def __init__(self, refusals: list[Refusal]) -> None:
        super().__init__("\n".join(str(refusal) for refusal in refusals))
        self.refusals = refusals


@dataclass(frozen=True, slots=True)
class Ledger:
    """A header and its task lines, sorted by id."""

    header: LedgerHeader
    tasks: tuple[TaskLine, ...]


class LedgerBuilder:
    """Takes the tasks one by one, so that their bytes never are in memory together."""

    def __init__(
        self,
        build_file: LedgerBuildFile,
        resolve: ImageResolver,
        archive: ArchiveWriter = write_archive,
        *,
        upstream: Upstream | None = None,
        harness: HarnessTree | None = None,
        oracle_runs: OracleRuns | None = None,
    ) -> None:
        self._build = build_file
        self._upstream, self._harness, self._oracle_runs = upstream, harness, oracle_runs
        self._resolve = resolve
        self._archive = archive
        self._lines: list[TaskLine] = []
        self._folders: dict[str, str] = {}
        self._refusals: list[Refusal] = []

    def add(self, folder: str, entries: Iterable[Entry]) -> None:
        """Reads one task. What is wrong with it is kept for `finish`."""
        by_path = {entry.path: entry for entry in entries}
        try:
            with by_path["task.toml"].open() as content:
                task = TaskSource(folder, by_path, parse_task_file(content.read()))
        except KeyError:
            self._refusals.append(Refusal(folder, "task.toml", "the file is missing", "add it"))
            return
        except TaskFileError as error:
            self._refusals.append(Refusal(folder, error.field, error.problem, error.fix))
            return
        if other := self._folders.get(task.id):
            self._refusals.append(
                task.refuse(
                    "[task] name",
                    f"folder {folder} and folder {other} have the same id",
                    "rename one of them",
                )
            )
            return
        self._folders[task.id] = folder
        self._add(task)

    def refuse(self, refusal: Refusal) -> None:
        """Adds a refusal that was found elsewhere, e.g. while a folder was read."""
        self._refusals.append(refusal)
        self._folders.setdefault(refusal.task, refusal.task)

    def finish(self) -> Ledger:
        """The ledger. Raises LedgerRefusedError with every refusal of every task."""
        self._refusals += self._unknown_names()
        if not self._lines and not self._refusals:
            self._refusals.append(
                Refusal("-", "tasks", "there is none", "name a folder that holds task folders")
            )
        upstream = self._compared()
        if self._refusals:
            raise LedgerRefusedError(sorted(self._refusals, key=lambda one: (one.task, one.field)))
        found = clusters(
            [
                ClusterInput(
                    line.id,
                    normalised_repository(line.repository) if line.repository else None,
                    line.base_commit,
                    line.failing_assertions,
                )
                for line in self._lines
            ]
        )
        tasks = tuple(
            _clustered(line, found[line.id]) for line in sorted(self._lines, key=lambda one: one.id)
        )
        header = LedgerHeader(
            benchmark=self._build.benchmark,
            version=self._build.version,
            harness=self._harness,
            upstream=upstream,
            plan=self._build.plan,
            allow_unknown=sorted(set(self._build.allow_unknown)),
            first_result_date=self._build.first_result_date,
            task_count=len(tasks),
        )
        return Ledger(header, tasks)

    def _compared(self) -> UpstreamManifest | None:
        """What the header says of the published manifest; its stale digests become a refusal."""
        if self._upstream is None:
            return None
        digests = {line.id: line.harbor_digest for line in self._lines}
        found = compare_upstream(self._upstream, digests, self._build.upstream.accept_stale)
        if refusal := stale_refusal(found):
            self._refusals.append(refusal)
        return found

    def _add(self, task: TaskSource) -> None:
        refusals = list(check_task(task))
        try:
            line = TaskReader(task, self._build, self._resolve, self._oracle_runs).line(self._archive)
            refusals += self._unallowed(task, line)
        except TaskRefused as error:
            refusals += error.refusals
        except ArchiveRefusedError as error:
            refusals.append(task.refuse(error.path, error.problem, error.fix))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            field = ".".join(str(part) for part in first["loc"])
            refusals.append(
                task.refuse(field, first["msg"], "correct task.toml or state it in the build file")
            )
        self._refusals += refusals
        if not refusals:
            self._lines.append(line)

    def _unallowed(self, task: TaskSource, line: TaskLine) -> Iterator[Refusal]:
        planned = self._build.plan.verifier_mode
        if planned and line.verifier_mode.value != planned:
            yield task.refuse(
                "verifier_mode",
                f"is {line.verifier_mode.value}, and [plan] verifier_mode says {planned} for every task",
                "ask for it in [defaults.verifier] with the files that cross, or leave it out of [plan]",
            )
        for fact in unknown_facts(line):
            if fact not in self._build.allow_unknown:
                yield task.refuse(
                    fact,
                    "is unknown",
                    f'state {_STATED[fact]} in the build file ([defaults] or [tasks."{task.id}"]), '
                    f'or allow it: allow_unknown = ["{fact}"]',
                )

    def _unknown_names(self) -> Iterator[Refusal]:
        known = {*self._folders, *self._folders.values()}
        excluded = [one.task for one in self._build.plan.exclusions]
        for table, names in (
            ("tasks", self._build.tasks),
            ("include", self._build.include or []),
            ("plan.exclusions", excluded),
        ):
            for name in names:
                if name not in known:
                    yield Refusal(
                        name, f"build file: {table}", "no task has this id or folder name", "correct it"
                    )


def _clustered(line: TaskLine, cluster: Cluster) -> TaskLine:
    return with_line_digest(
        line.model_copy(
            update={
                "cluster": cluster.name,
                "cluster_reason": cluster.reason,
                "cluster_rule": cluster.rule,
                "cluster_neighbour": cluster.neighbour,
            }
        )
    )


def image_resolver(*maps: Mapping[str, ImageByDigest]) -> ImageResolver:
    """Looks a name up in the maps, the first that knows it wins."""

    def resolve(name: str) -> ImageByDigest | None:
        return next((found[name] for found in maps if name in found), None)

    return resolve
