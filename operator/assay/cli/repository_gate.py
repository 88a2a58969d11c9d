"""Gathers what the gate of a repository looks at: files of a commit, task archives, rankings, reports."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from assay.adapters.git import GitRepository, by_folder, folder_entries
from assay.adapters.s3 import S3Store
from assay.api.ledgerfile import HarnessTree
from assay.cli.output import InputError
from assay.core.archive import ArchiveRefusedError, write_archive
from assay.core.ledger import LedgerFile, LedgerFileError, parse_ledger
from assay.core.repository_gate import (
    RANKINGS,
    Finding,
    RankedVersion,
    pin_findings,
    pin_path,
    ranked_by_report,
    ranking_findings,
    rankings_in,
    task_findings,
    tree_finding,
)
from assay.core.task_file import TaskFileError, parse_task_file

MAX_REPORT_BYTES = 64 << 20


@dataclass(frozen=True)
class Gate:
    """A ledger in a repository: `path` is the ledger file's, relative to the top."""

    repository: GitRepository
    path: str

    @property
    def left_out(self) -> list[str]:
        """What is never part of the harness: a ledger cannot hold its own hash, and rankings come later."""
        return [self.path, pin_path(self.path), RANKINGS]

    def harness_of_working_copy(self, paths: list[str], tasks: str | None) -> HarnessTree:
        """The harness as it would be committed."""
        tree = self.repository.tree_of_working_copy(paths, self.left_out)
        return HarnessTree(tree=tree, paths=sorted(set(paths)), tasks=tasks)

    def commit_findings(
        self, commit: str, on_task: Callable[[], None] = lambda: None
    ) -> tuple[LedgerFile | None, list[Finding]]:
        """The ledger of a commit and whether pin, harness and tasks are what it says."""
        ledger, findings = pin_findings(
            self.path,
            self.repository.read(commit, self.path),
            self.repository.read(commit, pin_path(self.path)),
        )
        if ledger is None:
            return None, findings
        harness = ledger.header.harness
        tree = self.repository.tree_of_commit(commit, harness.paths, self.left_out) if harness else None
        if found := tree_finding(ledger, tree):
            findings.append(found)
        if harness and harness.tasks:
            findings += self._task_findings(ledger, commit, harness.tasks, on_task)
        return ledger, findings

    def _task_findings(
        self, ledger: LedgerFile, commit: str, parent: str, on_task: Callable[[], None]
    ) -> Iterator[Finding]:
        digests: dict[str, str] = {}
        with self.repository.blobs() as blobs:
            for name, files in by_folder(self.repository.files(commit, [parent]), parent).items():
                settings = next((one for one in files if one.path == "task.toml"), None)
                if settings is None:
                    continue
                try:
                    task = parse_task_file(blobs.read(settings.object)).task
                    identity = task.name if task else name
                    if identity in ledger.by_id:
                        digests[identity] = write_archive(folder_entries(files, blobs)).digest
                except (TaskFileError, ArchiveRefusedError) as error:
                    yield Finding("task", f"{parent}/{name}: {error}", "undo the change")
                on_task()
        yield from task_findings(ledger, digests)

    def ranking_findings(
        self, ledger: LedgerFile | None, base: str, reports: Iterable[RankedVersion]
    ) -> Iterator[Finding]:
        """What the rankings of the base branch, and published reports, forbid."""
        files = self.repository.files(base, [RANKINGS])
        if ledger is None:
            if files:
                problem = f"{RANKINGS}/ of the base branch ranks versions, and the commit has no valid ledger"
                yield Finding("ranking", problem, f"restore {self.path}")
            return
        benchmark = ledger.header.benchmark
        with self.repository.blobs() as blobs:
            ranked = list(rankings_in(((one.path, blobs.read(one.object)) for one in files), benchmark))
        ranked += reports
        wanted = {one.digest for one in ranked if one.version == ledger.header.version}
        known = self._ledger_of(base, benchmark, ledger.header.version) if wanted else None
        yield from ranking_findings(ledger, ranked, known)

    def _ledger_of(self, base: str, benchmark: str, version: str) -> LedgerFile | None:
        """The ledger of a version as the base branch last held it, if it ever did."""
        for commit in [base, *self.repository.history(base, self.path)]:
            content = self.repository.read(commit, self.path)
            try:
                found = parse_ledger(content) if content else None
            except LedgerFileError:
                continue
            if found and (found.header.benchmark, found.header.version) == (benchmark, version):
                return found
        return None


def gate_at(ledger: Path) -> Gate:
    """The gate of a ledger file in a working copy. Raises InputError where it is in no repository."""
    repository = GitRepository(ledger.resolve().parent)
    try:
        return Gate(repository, ledger.resolve().relative_to(repository.root.resolve()).as_posix())
    except ValueError as error:
        raise InputError(f"{ledger} is not in the working copy {repository.root}") from error


def published_reports(store: S3Store, bucket: str, prefix: str, benchmark: str) -> Iterator[RankedVersion]:
    """Ranked versions by the `report.json` files below a prefix of a bucket."""
    for info in store.list_keys(bucket, prefix):
        if info.key.endswith("report.json"):
            content = store.get_bytes(bucket, info.key, MAX_REPORT_BYTES)
            yield from ranked_by_report(content, f"s3://{bucket}/{info.key}", benchmark)
